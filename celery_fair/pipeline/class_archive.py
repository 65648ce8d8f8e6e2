"""An archive of the classes that Spark loads, which Java maps when it starts.

To read some ten thousand classes from their jars, and to verify them, is about a third of what a
command takes that has little to do. Java writes an archive when it ends, and says itself whether
one fits: it goes on without if it does not (JEP 350, application class-data sharing).

The archive is in the user's cache folder, ``$XDG_CACHE_HOME/celery-fair``, and may be removed at
any time. The first command leaves it there, for one Java and one Spark.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from time import time

__all__ = ["archive_options"]

_SILENT = "-Xlog:disable"
"""Java tells on standard output of each class that is not archived."""

_UNFINISHED = 600.0
"""Seconds after which an archive that is not whole is made anew: its Java was killed."""

_UNUSED = 30 * 86400.0
"""Seconds after which an archive that was not used is removed."""

_UNQUOTED = set(" \t\n\"'\\")


def archive_options(environ: Mapping[str, str] = os.environ) -> str:
    """Return the options by which Java uses the archive, or makes it; "" if it can do neither."""
    with suppress(OSError, RuntimeError):  # there is no home, or nobody may write there
        folder = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "celery-fair"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if folder.stat().st_uid != os.getuid() or _UNQUOTED & set(str(folder)):
            return ""
        archive = folder / f"classes-{_fingerprint(environ)}.jsa"
        draft = archive.with_suffix(".new")
        if not archive.exists() and _is_whole(draft):
            draft.rename(archive)
        if archive.exists():
            os.utime(archive)
            return f"-XX:SharedArchiveFile={archive} {_SILENT}"
        if _is_mine_to_make(draft):
            _clear_up(folder)
            return f"-XX:ArchiveClassesAtExit={draft} {_SILENT}"
    return ""


def _fingerprint(environ: Mapping[str, str]) -> str:
    """Which Java and which Spark these are."""
    java = Path(environ["JAVA_HOME"])
    found = find_spec("pyspark")
    assert found is not None  # it is imported by now
    assert found.origin is not None
    jars = Path(environ.get("SPARK_HOME") or Path(found.origin).parent) / "jars"
    which = [
        java.resolve(),
        (java / "release").read_text(),
        jars.resolve(),
        jars.stat().st_mtime_ns,
    ]
    return sha256(repr(which).encode()).hexdigest()[:16]


def _is_whole(draft: Path) -> bool:
    """Whether Java has written it to the end: it writes the beginning last."""
    with suppress(FileNotFoundError), draft.open("rb") as file:
        return any(file.read(4))
    return False


def _is_mine_to_make(draft: Path) -> bool:
    """Make an empty draft, and say whether nobody else has."""
    with suppress(FileNotFoundError):
        if time() - draft.stat().st_mtime > _UNFINISHED:
            draft.unlink()
    try:
        draft.open("x").close()
    except FileExistsError:
        return False
    return True


def _clear_up(folder: Path) -> None:
    for path in folder.glob("classes-*"):
        with suppress(FileNotFoundError):
            if time() - path.stat().st_mtime > _UNUSED:
                path.unlink()
