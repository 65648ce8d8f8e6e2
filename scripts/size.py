"""Counts lines of code, and says where the house is too large; `make lint` fails above its bounds.

    python scripts/size.py [FOLDER]

A line of code is one that is not blank, nor comment or docstring alone. Essays and docstrings cost
nothing here. Bounds are of the whole, and of what one has to hold in one's head at once: a file, a
folder, a class, a constructor.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LINES, FILES = 24_000, 280
"""At the most."""

FILE_LINES, FOLDER_FILES, METHODS, ARGUMENTS = 400, 16, 20, 8

_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def lines_of_code(source: str) -> int:
    """Return how many lines of a module are code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            said = node.body[0]
            lines.difference_update(range(said.lineno, (said.end_lineno or said.lineno) + 1))
    return len(lines)


def oversized(source: str) -> Iterator[str]:
    """Yield what of a module's classes is above a bound."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        if len(methods) > METHODS:
            yield f"class {node.name} has {len(methods)} methods, at most {METHODS}"
        for each in methods:
            arguments = len(each.args.args) + len(each.args.kwonlyargs) - 1
            if each.name == "__init__" and arguments > ARGUMENTS:
                yield f"{node.name}'s constructor has {arguments} arguments, at most {ARGUMENTS}"


def main() -> int:
    folder = Path(sys.argv[1] if sys.argv[1:] else "celery_fair")
    sources = {path: path.read_text() for path in sorted(folder.rglob("*.py"))}
    code = sum(map(lines_of_code, sources.values()))
    found = [
        f"{path}: {trouble}" for path, source in sources.items() for trouble in oversized(source)
    ]
    found += [
        f"{path} has {length} lines, at most {FILE_LINES}"
        for path, source in sources.items()
        if (length := source.count("\n")) > FILE_LINES
    ]
    found += [
        f"{place} has {number} modules, at most {FOLDER_FILES}"
        for place, number in Counter(path.parent for path in sources).items()
        if number > FOLDER_FILES
    ]
    if code > LINES or len(sources) > FILES:
        found.append(f"{folder} is larger than {LINES:,} lines of code in {FILES} files")
    print("\n".join([*found, f"{code:,} lines of code in {len(sources)} files"]))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
