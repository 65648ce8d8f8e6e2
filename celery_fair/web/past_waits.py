"""How long the messages waited that were started in a time, by a warehouse's attempts."""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from celery_fair.pipeline.warehouse import Pointer
from celery_fair.web.tables import check, named, table_of

__all__ = ["Waits", "started", "waits_by_step", "waits_of"]

_ATTEMPTS = 2_000_000
"""That waits are summed up of; some 250 MB."""

_TIMED = ("queue", "started_at", "wait")


class Waits(NamedTuple):
    """How many were started, and how long half, and 95 %, of them waited at the most."""

    started: int = 0
    median: float | None = None
    p95: float | None = None


def started(root: Path, pointer: Pointer, since: float, until: float) -> tuple[Any, str]:
    """Return the attempts that started in a time; also why none, if there are too many."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = zip(_TIMED, (pa.string(), pa.float64(), pa.float64()), strict=True)
    nothing = pa.schema(columns).empty_table()
    if "attempts" not in pointer.tables:
        return nothing, ""
    chosen = (pc.field("started_at") >= since) & (pc.field("started_at") < until)
    parts, left = {}, _ATTEMPTS
    for folder in pointer.tables["attempts"]:
        run = folder.rpartition("run=")[2]
        part = table_of(root, pointer, "attempts", run)
        if not part.files:
            continue
        check(pointer, "attempts", part.schema.names, (*_TIMED, "id"))
        counted = part.count_rows(filter=chosen)
        left -= counted
        if left < 0:
            return nothing, (
                f"More than {_ATTEMPTS:,} tasks were started in this time: their waits are shown"
                " of a shorter one, or by the pipeline's commands."
            )
        if counted:
            parts[run] = part
    tables = []
    for run, stale in _stale(root, pointer, list(parts)).items():
        wanted = chosen & ~pc.field("id").isin(stale) if len(stale) else chosen
        tables.append(parts[run].to_table(list(_TIMED), filter=wanted))
    return named(pa.concat_tables(tables)) if tables else nothing, ""


def waits_of(rows: Any) -> dict[str, Waits]:
    """Return each queue's."""
    return {row["queue"]: _waits(row) for row in _summed(rows, ["queue"])}


def waits_by_step(rows: Any, step: float) -> dict[str, dict[int, Waits]]:
    """Return each queue's, of starts in the same seconds, `step` of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    steps = pc.cast(pc.floor(pc.divide(rows["started_at"], step)), pa.int64())
    found: defaultdict[str, dict[int, Waits]] = defaultdict(dict)
    for row in _summed(rows.append_column("step", steps), ["queue", "step"]):
        found[row["queue"]][row["step"]] = _waits(row)
    return found


def _summed(rows: Any, by: list[str]) -> list[dict[str, Any]]:
    import pyarrow.compute as pc

    quantiles = ("wait", "tdigest", pc.TDigestOptions(q=[0.5, 0.95], delta=200))
    summed = rows.group_by(by).aggregate([("started_at", "count"), quantiles])
    return summed.to_pylist()  # type: ignore[no-any-return]


def _waits(row: dict[str, Any]) -> Waits:
    """By two clocks a message may have started before it was published."""
    found = row["wait_tdigest"] or ()
    known = [None if each is None or math.isnan(each) else max(0.0, each) for each in found]
    return Waits(row["started_at_count"], *(known if len(known) == 2 else (None, None)))


def _stale(root: Path, pointer: Pointer, runs: Sequence[str]) -> dict[str, Any]:
    """Return, by the run that wrote them, the ids of attempts that no longer count.

    Arguments:
        runs: those in which something is looked for; what is replaced in others is left unread.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found = dict.fromkeys(runs, pa.array([], pa.string()))
    if not (runs and pointer.tables.get("replaced")):
        return found
    replaced = table_of(root, pointer, "replaced")
    if replaced.files:
        rows = replaced.to_table(["stale", "id"], filter=pc.field("stale").isin(runs))
        for run in runs:
            found[run] = rows.filter(pc.equal(rows["stale"], run))["id"].combine_chunks()
    return found
