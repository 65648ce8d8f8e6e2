"""Whether a wheel says of itself what an index should show.

python scripts/check_metadata.py dist/*.whl
"""

import re
import sys
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

_LINK = re.compile(r"\[[^\]]+\]\((?!https?:)[^)]+\)")
_FILES = ("py.typed", ".lua", ".sql")
"""What must be in it besides Python's."""


def problems(wheel: Path) -> list[str]:
    """Return what is wrong, a line each."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        [name] = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    readme = str(metadata.get_payload())
    found = [
        f"a link that leads nowhere outside of the repository: {link}"
        for link in _LINK.findall(readme)
    ]
    found += [
        f"no {name} in it"
        for name in ("License-Expression", "Requires-Python")
        if not metadata[name]
    ]
    kept = {name for name in names for end in _FILES if name.endswith(end)}
    found += [f"no {end} file in it" for end in _FILES if not any(n.endswith(end) for n in kept)]
    found += [
        f"tests or benchmarks in it: {n}" for n in names if n.startswith(("tests/", "benchmarks/"))
    ]
    return found


def main() -> int:
    """Print them; return the exit status."""
    found = [problem for path in sys.argv[1:] for problem in problems(Path(path))]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
