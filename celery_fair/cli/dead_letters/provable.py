"""The file of ``pipeline audit --ids-out``: dead letters that provably never started."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from celery_fair.dead_letters.letter import Letter
from celery_fair.headers import PUBLISHED

__all__ = ["Provable", "proven"]

_CLOSE = 1e-3
"""Seconds between two times of publication that are the same one."""


class Provable:
    """What the log has proven.

    A letter is known by its task's id, the number of its retries and when it was published: what
    was replayed since then is another message, of which nothing is proven.
    """

    def __init__(self, path: Path) -> None:
        self._published: dict[tuple[str, int], float] = {}
        with path.open() as file:
            for number, line in enumerate(file, start=1):
                try:
                    row = json.loads(line)
                    self._published[str(row["id"]), int(row["retries"])] = float(row["published"])
                except (KeyError, TypeError, ValueError) as exc:
                    raise ValueError(
                        f"line {number}, {line.strip()[:80]!r}, is not of pipeline audit"
                        f" --ids-out: {exc!r}"
                    ) from None

    def among(self, meant: Callable[[Letter], bool]) -> Callable[[Letter], bool]:
        """Return what says of a letter whether it is one of these, and meant."""
        return lambda letter: self.fits(letter) and meant(letter)

    def fits(self, letter: Letter) -> bool:
        """Whether it is of this letter that the log has proven that it did not start."""
        retries, published = letter.headers.get("retries") or 0, letter.headers.get(PUBLISHED)
        if not isinstance(retries, int) or not isinstance(published, float):
            return False
        proven = self._published.get((letter.id, retries))
        return proven is not None and abs(proven - published) < _CLOSE


def proven(ctx: click.Context, param: click.Parameter, path: Path | None) -> Any:
    """Read the file that an option names.

    Raises:
        click.BadParameter: it cannot be read, or is another file.
    """
    if path is None:
        return None
    try:
        return Provable(path)
    except (OSError, ValueError) as exc:
        raise click.BadParameter(f"{path}: {exc}", ctx, param) from exc
