"""What the tables of a warehouse say of a time, read by PyArrow: neither Spark nor Java is needed.

Shares and targets are those of the gold table `fairness`, interval by interval, summed up as
`pipeline fairness` does: what was served, and what was due, as parts of all that was contended.
Waits are of the attempts that started in that time; rows that no longer count are left out, as
`celery_fair.pipeline.warehouse` does.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.pointer import Pointer
from celery_fair.web.past_waits import waits_of
from celery_fair.web.tables import check, table_of

__all__ = ["FIGURES", "KEPT", "Past", "QueuePast", "Span", "read_past"]

FIGURES = ("share", "target", "median", "p95")

KEPT = ("FAIR", "ALONE")
"""Verdicts on who got its share, or had nobody to share with."""

_POINTS = 500
"""Of a line, at the most: of more intervals several are summed up."""

_INTERVALS = 5_000_000
"""Of queues at workers that shares are summed up of; some 500 MB."""

_AHEAD = 600.0
"""Seconds that the clocks of workers may be ahead of this machine's."""

_OFF = 20_000
_QUEUES = 1000
_WORST = 20
_JUDGED = ("queue", "since", "until", "served", "due", "total", "verdict")


class Span(NamedTuple):
    """Seconds since 1970, from when until when; without an end up to what is there last."""

    length: float
    until: float | None = None


class Interval(NamedTuple):
    """A queue in an interval at a worker which did not keep its share."""

    since: float
    until: float
    share: float | None
    target: float | None
    verdict: str


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
        trouble: why nothing, or not all, is known.
    """

    version: int = 0
    folders: frozenset[str] = frozenset()
    since: float = 0.0
    until: float = 0.0
    step: float = 0.0
    times: Sequence[float] = ()
    queues: dict[str, QueuePast] = {}  # noqa: RUF012 - never changed
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
    check(pointer, "fairness", judged.schema.names, _JUDGED)
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
    rows = judged.to_table(list(_JUDGED), filter=chosen)
    length = pc.min(pc.subtract(rows["until"], rows["since"])).as_py() or 60.0
    step = length * max(1, math.ceil(span.length / length / _POINTS))
    first = math.floor(since / step)
    count = max(1, math.ceil(until / step) - first)
    waits, trouble = waits_of(root, pointer, since, until, step)
    shares, verdicts, worst = _shares(rows, step)
    found = {
        name: _queue(
            shares.get(name, {}),
            verdicts.get(name, {}),
            worst.get(name, []),
            waits.get(name, {}),
            range(first, first + count),
        )
        for name in sorted({*shares, *waits})
    }
    ordered = sorted(found.items(), key=lambda each: (-(each[1].share or 0), each[0]))[:_QUEUES]
    times = [step * (first + number) for number in range(count)]
    return Past(*mark, since, until, step, times, dict(ordered), trouble)


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


def _shares(
    rows: Any, step: float
) -> tuple[
    dict[str, dict[int, tuple[float, float, float]]],
    dict[str, dict[str, int]],
    dict[str, list[Interval]],
]:
    """Return each queue's served, due and total amounts in each step, its verdicts, and the worst.

    Those are of the furthest off of all queues.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    steps = pc.cast(pc.floor(pc.divide(rows["since"], step)), pa.int64())
    amounts = [(name, "sum") for name in ("served", "due", "total")]
    shares: defaultdict[str, dict[int, tuple[float, float, float]]] = defaultdict(dict)
    summed = rows.append_column("step", steps).group_by(["queue", "step"]).aggregate(amounts)
    for row in summed.to_pylist():
        each = tuple(row[f"{name}_sum"] or 0.0 for name, _ in amounts)
        shares[row["queue"]][row["step"]] = (each[0], each[1], each[2])
    verdicts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    counted = rows.group_by(["queue", "verdict"]).aggregate([("since", "count")])
    for row in counted.to_pylist():
        verdicts[row["queue"]][row["verdict"]] = row["since_count"]
    off = rows.filter(pc.invert(pc.is_in(rows["verdict"], pa.array(KEPT))))
    apart = pc.divide(pc.abs(pc.subtract(off["served"], off["due"])), off["total"])
    off = off.append_column("apart", apart)
    order = [("apart", "descending"), ("since", "ascending")]
    worst: defaultdict[str, list[Interval]] = defaultdict(list)
    for row in off.sort_by(order).slice(0, _OFF).to_pylist():
        if len(worst[row["queue"]]) < _WORST:
            share, target = (_part(row[name] or 0.0, row["total"]) for name in ("served", "due"))
            told = Interval(row["since"], row["until"], share, target, row["verdict"])
            worst[row["queue"]].append(told)
    return shares, verdicts, worst


def _queue(
    shares: dict[int, tuple[float, float, float]],
    verdicts: dict[str, int],
    worst: list[Interval],
    waits: dict[int | None, tuple[int, list[float]]],
    steps: range,
) -> QueuePast:
    # An interval that began before the first step, or ends after the last, counts in all.
    served, due, total = (sum(each[number] for each in shares.values()) for number in range(3))
    started, quantiles = waits.get(None, (0, []))
    of_steps = [_quantiles(waits.get(number, (0, []))[1]) for number in steps]
    nothing = (0.0, 0.0, 0.0)
    return QueuePast(
        _part(served, total),
        _part(due, total),
        started,
        *_quantiles(quantiles),
        verdicts,
        worst,
        {
            "share": [_part(shares.get(n, nothing)[0], shares.get(n, nothing)[2]) for n in steps],
            "target": [_part(shares.get(n, nothing)[1], shares.get(n, nothing)[2]) for n in steps],
            "median": [median for median, _ in of_steps],
            "p95": [p95 for _, p95 in of_steps],
        },
    )


def _part(some: float, total: float | None) -> float | None:
    return some / total if total and math.isfinite(some / total) else None


def _quantiles(found: Sequence[float | None] | None) -> tuple[float | None, float | None]:
    """By two clocks a message may have started before it was published."""
    known = [None if each is None or math.isnan(each) else max(0.0, each) for each in found or ()]
    return (known[0], known[1]) if len(known) == 2 else (None, None)
