"""How long the messages waited that were started in a time, by a warehouse's attempts."""

from collections import defaultdict
from pathlib import Path

from celery_fair.pipeline.pointer import Pointer
from celery_fair.web.tables import check, table_of

__all__ = ["waits_of"]

_ATTEMPTS = 2_000_000
"""That waits are summed up of; some 250 MB."""

_TIMED = ("queue", "started_at", "wait")


def waits_of(
    root: Path, pointer: Pointer, since: float, until: float, step: float
) -> tuple[dict[str, dict[int | None, tuple[int, list[float]]]], str]:
    """Return the starts of each queue, and their waits' quantiles, in each step and (None) in all.

    Also why there are none, if there are too many.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if "attempts" not in pointer.tables:
        return {}, ""
    chosen = (pc.field("started_at") >= since) & (pc.field("started_at") < until)
    stale = _stale(root, pointer)
    tables, left = [], _ATTEMPTS
    for folder in pointer.tables["attempts"]:
        run = folder.rpartition("run=")[2]
        part = table_of(root, pointer, "attempts", run)
        if not part.files:
            continue
        check(pointer, "attempts", part.schema.names, (*_TIMED, "id"))
        left -= part.count_rows(filter=chosen)
        if left < 0:
            return {}, (
                f"More than {_ATTEMPTS:,} tasks were started in this time: their waits are shown"
                " of a shorter one, or by the pipeline's commands."
            )
        wanted = chosen & ~pc.field("id").isin(stale[run]) if stale[run] else chosen
        tables.append(part.to_table(list(_TIMED), filter=wanted))
    if not tables:
        return {}, ""
    rows = pa.concat_tables(tables)
    steps = pc.floor(pc.divide(rows["started_at"], step))
    rows = rows.append_column("step", pc.cast(steps, pa.int64()))
    quantiles = ("wait", "tdigest", pc.TDigestOptions(q=[0.5, 0.95], delta=200))
    found: defaultdict[str, dict[int | None, tuple[int, list[float]]]] = defaultdict(dict)
    for by in (["queue", "step"], ["queue"]):
        summed = rows.group_by(by).aggregate([("started_at", "count"), quantiles])
        for row in summed.to_pylist():
            counted = row["started_at_count"], row["wait_tdigest"]
            found[row["queue"] or ""][row.get("step")] = counted
    return found, ""


def _stale(root: Path, pointer: Pointer) -> defaultdict[str, list[str]]:
    """Return, by the run that wrote them, the ids of attempts that no longer count."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    if pointer.tables.get("replaced"):
        replaced = table_of(root, pointer, "replaced")
        if replaced.files:
            for row in replaced.to_table(["stale", "id"]).to_pylist():
                found[row["stale"]].append(row["id"])
    return found
