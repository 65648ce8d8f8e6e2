"""What was found, as a document and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.faults.accounting import COLUMNS
from tests.kills.siege import CAPS, Found

__all__ = ["row", "table"]


def row(case: str, found: Found) -> dict[str, Any]:
    """Of one siege."""
    return {
        "case": case,
        "kills": dict(found.kills),
        "tasks": {
            task: dict(account.row()) | {"started again": found.again[task]}
            for task, account in found.accounts.items()
        },
        "lost at most": found.lost_at_most,
        "most at once": {tenant: [found.most[tenant], cap] for tenant, cap in CAPS.items()},
        "lanes": found.lanes,
        "longest wait of a key": [found.key_waited, found.bound],
        "longest wait of a lane": [found.lane_waited, found.lane_bound],
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Who was killed; where the messages went; caps and waits, each with what is promised."""
    victims = sorted({victim for row in rows for victim in row["kills"]})
    columns = [*COLUMNS, "started again"]
    return "\n\n".join(
        [
            _aligned(
                ("killed", *victims, "in all"),
                (
                    (r["case"], *(r["kills"].get(v, 0) for v in victims), sum(r["kills"].values()))
                    for r in rows
                ),
            ),
            _aligned(
                ("", "task", *columns),
                (
                    (r["case"], task, *(figures.get(name, 0) for name in columns))
                    for r in rows
                    for task, figures in r["tasks"].items()
                ),
            ),
            _aligned(
                ("", "at once, of its cap", "lost at most", "lanes", "a key waited", "a lane"),
                (
                    (
                        r["case"],
                        ", ".join(f"{name} {n}/{cap}" for name, (n, cap) in _most(r)),
                        r["lost at most"],
                        r["lanes"],
                        _within(*r["longest wait of a key"]),
                        _within(*r["longest wait of a lane"]),
                    )
                    for r in rows
                ),
            ),
        ]
    )


def _most(row: dict[str, Any]) -> Iterable[tuple[str, list[int]]]:
    most: dict[str, list[int]] = row["most at once"]
    return most.items()


def _within(seconds: float, bound: float) -> str:
    return f"{seconds:.2f} s (bound {bound:.2f})" if bound else ""


def _aligned(heads: Sequence[object], lines: Iterable[Sequence[object]]) -> str:
    texts = [[str(cell) for cell in line] for line in (heads, *lines)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in texts
    )
