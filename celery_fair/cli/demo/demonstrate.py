"""A demonstration from its introduction to its page."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from celery_fair.cli.demo.errors import DemoError, printed
from celery_fair.cli.demo.screen import Screen, suitable_screen

__all__ = ["Demonstration", "demonstrate", "writing"]


class Demonstration(Protocol):
    """Some runs of workers, and what they show."""

    page_shows: str

    def run(self, screen: Screen) -> bool:
        """Show all runs; return whether they show what they were to show."""

    def page(self) -> str:
        """Return the HTML file."""

    def report(self) -> dict[str, Any]:
        """Return all that the other outputs show, in types of JSON."""


def demonstrate(demonstration: Demonstration, path: Path | None, as_json: bool) -> bool:
    """Show the runs, write their page, print the report; return whether all went as it should."""
    if path is not None:
        _try_to_write(path)  # better refused now than after the runs
    screen = suitable_screen(as_json)
    try:
        good = demonstration.run(screen)
    finally:
        screen.close()
    if path is not None:
        with _writing_page(path):
            path.write_text(demonstration.page(), encoding="utf-8")
    if as_json:
        report = {"html": None if path is None else str(path), **demonstration.report()}
        printed(json.dumps(report, indent=2))
    elif path is not None:
        printed(f"{demonstration.page_shows}: {path}")
    return good


@contextmanager
def writing(option: str, path: Path, other: str) -> Iterator[None]:
    """Explain why something cannot be written."""
    try:
        yield
    except OSError as exc:
        raise DemoError(
            f"cannot write {option} {path}: {exc.strerror}; name another {other}"
        ) from exc


def _writing_page(path: Path) -> Any:
    return writing("--html", path, "file, or use --no-html")


def _try_to_write(path: Path) -> None:
    new = not path.exists()
    with _writing_page(path), path.open("ab"):
        pass
    if new:
        path.unlink()
