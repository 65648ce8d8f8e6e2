"""Counts attributes that are assigned from outside the module that defines their class.

    python scripts/foreign_assignments.py [--list] [FOLDER]

Whoever reads a class is to find there all that its objects can hold: what an object needs, its
constructor is given. So `thing.attribute = …` is foreign where no class of the module has such an
attribute, `self.attribute` or one that is annotated in its body. Fails above one per 1000 lines.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MOST = 1.0
"""Per 1000 lines."""


def own(tree: ast.Module) -> set[str]:
    """Return the attributes that the module's classes give themselves."""
    names = set()
    for class_ in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in class_.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
            elif isinstance(node, ast.Assign):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        names |= {target.attr for target in assigned(class_) if is_self(target)}
    return names


def assigned(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Yield the attributes that are assigned somewhere in here."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = list(node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (part for part in parts if isinstance(part, ast.Attribute))


def is_self(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id in {"self", "cls"}


def foreign(source: str) -> list[tuple[int, str]]:
    """Return the lines and texts of a module's foreign assignments."""
    tree = ast.parse(source)
    known = own(tree)
    return [
        (target.lineno, ast.unparse(target))
        for target in assigned(tree)
        if not is_self(target) and target.attr not in known
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=Path("celery_fair"))
    parser.add_argument("--list", action="store_true", help="show them, however few they are")
    options = parser.parse_args()
    lines, found = 0, []
    for path in sorted(options.folder.rglob("*.py")):
        source = path.read_text()
        lines += source.count("\n")
        found += [f"{path}:{line}: {text}" for line, text in foreign(source)]
    rate = 1000 * len(found) / max(lines, 1)
    too_many = rate > MOST
    if options.list or too_many:
        print(*found, sep="\n")
    print(
        f"{len(found)} foreign assignments in {lines} lines: {rate:.2f} per 1000,"
        f" at most {MOST:g} allowed"
    )
    sys.exit(too_many)


if __name__ == "__main__":
    main()
