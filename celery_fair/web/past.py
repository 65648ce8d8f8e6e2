"""What the tables of a warehouse say of a time, read by PyArrow: neither Spark nor Java is needed.

Shares and targets are those of the gold table `fairness`, interval by interval, summed up as
`pipeline fairness` does: what was served, and what was due, as parts of all that was contended.
Waits are of the attempts that started in that time; rows that no longer count are left out, as
`celery_fair.pipeline.warehouse` does.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.warehouse import Pointer
from celery_fair.web.past_shares import (
    JUDGED,
    Interval,
    Share,
    shares_by_step,
    shares_of,
    verdicts,
    worst,
)
from celery_fair.web.past_waits import Waits, started, waits_by_step, waits_of
from celery_fair.web.tables import check, named, of_queues, table_of

__all__ = ["FIGURES", "Past", "QueuePast", "Span", "read_past"]

FIGURES = ("share", "target", "median", "p95")

_POINTS = 500
"""Of a line, at the most: of more intervals several are summed up."""

_INTERVALS = 5_000_000
"""Of queues at workers that shares are summed up of; some 500 MB."""

_AHEAD = 600.0
"""Seconds that the clocks of workers may be ahead of this machine's."""

_QUEUES = 1000
"""That are shown, those of the largest shares."""

_DAY = 86400.0

_NO_SHARE, _NO_WAITS = Share(), Waits()


class Span(NamedTuple):
    """Seconds since 1970, from when until when; without an end up to what is there last."""

    length: float
    until: float | None = None

    def rounded(self) -> "Span":
        """Return this until the next minute, of a day until the next five, of more thirty."""
        if self.until is None:
            return self
        step = 60 if self.length < _DAY else 300 if self.length == _DAY else 1800
        return self._replace(until=float(math.ceil(self.until / step) * step))


class QueuePast(NamedTuple):
    """A queue's sums.

    Attributes:
        verdicts: how many intervals have which.
        worst: those that are not `KEPT`, the furthest from its target first.
        lines: of `FIGURES`.
    """

    share: float | None
    target: float | None
    started: int
    median: float | None
    p95: float | None
    verdicts: dict[str, int]
    worst: list[Interval]
    lines: dict[str, list[float | None]]


class Past(NamedTuple):
    """What is known of a time.

    Attributes:
        version: the warehouse's.
        folders: that make it up; those of a warehouse made anew have other names.
        times: where the lines' points are.
        queues: by name, that of the largest share first.
        left_out: how many queues besides are known, of smaller shares.
        trouble: why nothing, or not all, is known.
    """

    version: int = 0
    folders: frozenset[str] = frozenset()
    since: float = 0.0
    until: float = 0.0
    step: float = 0.0
    times: Sequence[float] = ()
    queues: dict[str, QueuePast] = {}  # noqa: RUF012 - never changed
    left_out: int = 0
    trouble: str = ""


def read_past(root: Path, pointer: Pointer, span: Span, now: float) -> Past:
    """Return what a version says.

    Arguments:
        now: what begins later has a clock that is ahead, and is not the last that is there.

    Raises:
        PipelineError: it has not been filled, or was written by another version.
        FileNotFoundError: a folder of it is gone.
    """
    import pyarrow.compute as pc

    if not pointer.tables:
        raise PipelineError(
            f"{root} has no version yet: python -m celery_fair pipeline ingest LOGS {root}"
        )
    if "fairness" not in pointer.tables:
        raise PipelineError(
            f"version {pointer.version} has no shares yet:"
            f" python -m celery_fair pipeline fairness {root}"
        )
    mark = pointer.version, frozenset(pointer.folders)
    judged = table_of(root, pointer, "fairness")
    if not judged.files:
        return Past(*mark, trouble="No queue had work in any interval.")
    check(pointer, "fairness", judged.schema.names, JUDGED)
    until = _last(judged, now) if span.until is None else span.until
    if until is None:
        return Past(*mark, trouble="No queue had work in any interval.")
    since = until - span.length
    chosen = (pc.field("until") > since) & (pc.field("since") < until)
    if judged.count_rows(filter=chosen) > _INTERVALS:
        raise PipelineError(
            f"There are more than {_INTERVALS:,} intervals of queues at workers in this time: look"
            " at a shorter one, or ask `pipeline fairness`, with a longer --interval."
        )
    rows = named(judged.to_table(list(JUDGED), filter=chosen))
    length = pc.min(pc.subtract(rows["until"], rows["since"])).as_py() or 60.0
    step = length * max(1, math.ceil(span.length / length / _POINTS))
    first = math.floor(since / step)
    steps = range(first, first + max(1, math.ceil(until / step) - first))
    starts, trouble = started(root, pointer, since, until)
    times = [step * number for number in steps]
    queues, left_out = _queues(rows, starts, step, steps)
    return Past(*mark, since, until, step, times, queues, left_out, trouble)


def _queues(rows: Any, starts: Any, step: float, steps: range) -> tuple[dict[str, QueuePast], int]:
    """Return what is shown of queues, and how many are not: lines are made of no others."""
    shares, waits = shares_of(rows), waits_of(starts)
    order = {name: (-(shares.get(name, _NO_SHARE).share or 0), name) for name in {*shares, *waits}}
    shown = sorted(order, key=order.__getitem__)[:_QUEUES]
    if len(shown) < len(order):
        rows, starts = of_queues(rows, shown), of_queues(starts, shown)
    lines = _lines(shown, shares_by_step(rows, step), waits_by_step(starts, step), steps)
    judged, furthest = verdicts(rows), worst(rows)
    found = {}
    for name, line in zip(shown, lines, strict=True):
        share, wait = shares.get(name, _NO_SHARE), waits.get(name, _NO_WAITS)
        reasons = judged.get(name, {}), furthest.get(name, [])
        found[name] = QueuePast(*share, wait.started, wait.median, wait.p95, *reasons, line)
    return found, len(order) - len(found)


def _lines(
    queues: Sequence[str],
    shares: Mapping[str, Mapping[int, Share]],
    waits: Mapping[str, Mapping[int, Waits]],
    steps: range,
) -> Iterator[dict[str, list[float | None]]]:
    """Return each queue's; an interval that began before the first step is in none."""
    for name in queues:
        of_shares = [shares.get(name, {}).get(step, _NO_SHARE) for step in steps]
        of_waits = [waits.get(name, {}).get(step, _NO_WAITS) for step in steps]
        yield {
            "share": [each.share for each in of_shares],
            "target": [each.target for each in of_shares],
            "median": [each.median for each in of_waits],
            "p95": [each.p95 for each in of_waits],
        }


def _last(judged: Any, now: float) -> float | None:
    """Return when the last interval ends that has begun by now; if none has, the last of all."""
    pieces = [piece for file in judged.get_fragments() for piece in file.split_by_row_group()]
    ends = [_ends(piece, now + _AHEAD) for piece in pieces]
    begun = [end for end, _ in ends if end is not None]
    return max(begun, default=max((end for _, end in ends if end is not None), default=None))


def _ends(piece: Any, latest: float) -> tuple[float | None, float | None]:
    """Return when the last interval ends that begins by some time, and the last of all.

    The statistics say so, but where there are none, or intervals begin before and after it.
    """
    import pyarrow.compute as pc

    known = piece.row_groups[0].statistics or {}
    if "since" in known and "until" in known:
        end = known["until"]["max"]
        if known["since"]["max"] <= latest:
            return end, end
        if known["since"]["min"] > latest:
            return None, end
    rows = piece.to_table(columns=["since", "until"])
    begun = rows.filter(pc.less_equal(rows["since"], latest))
    return pc.max(begun["until"]).as_py(), pc.max(rows["until"]).as_py()
