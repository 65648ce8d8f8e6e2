"""The report's part of queues that are shared by key."""

from importlib.resources import files
from string import Template

from celery_fair.pipeline.gold.audit import VERDICTS
from celery_fair.pipeline.key_names import named
from celery_fair.pipeline.report.figures import KeyFigures, Row
from celery_fair.pipeline.report.tables import columns, number, percent, table

__all__ = ["by_key"]


def by_key(shown: KeyFigures | None) -> str:
    """Return it; nothing if no message has a key."""
    if shown is None:
        return ""
    text = files("celery_fair.pipeline.report").joinpath("by_key.html").read_text("utf-8")
    counts = ("attempts", *(name.lower() for name in VERDICTS))
    waits = ("queue", "started", "p50", "p95", "p99", "longest")
    return Template(text).substitute(
        shares=_shares(shown.keys),
        first_waits=columns(waits, shown.first_waits, "No publisher wrote when."),
        noisy=_noisy(shown.noisy),
        costs=_costs(shown.costs),
        audit=table(("queue", "key", *counts), [_counts(row, counts) for row in shown.audit], ""),
    )


def _shares(rows: list[Row]) -> str:
    heads = (
        *("queue", "key", "weight", "of", "served", "share", "target", "off by", "seconds"),
        "verdict",
    )
    cells = [
        (
            *(row["queue"], named(row), number(row["weight"]), number(row["unit"])),
            number(row["served"]),
            percent(row["share"]),
            percent(row["target"]),
            percent(row["deviation"], signed=True),
            number(row["seconds"]),
            number(row["verdict"]),
        )
        for row in rows
    ]
    return table(heads, cells, "No two keys had something waiting at one time.")


def _noisy(rows: list[Row]) -> str:
    heads = (
        *("queue", "key", "intervals", "in flight", "others' p95, s", "share", "target"),
        "fair in",
    )
    cells = [
        (
            *(row["queue"], named(row), number(row["intervals"]), percent(row["in_flight"])),
            number(row["others_p95"]),
            percent(row["share"]),
            percent(row["target"]),
            number(row["fair"]),
        )
        for row in rows
    ]
    return table(heads, cells, "No key had more than a tenth of what ran while others waited.")


def _costs(rows: list[Row]) -> str:
    heads = ("queue", "key", "n", "mean", "longest", "seconds", "of the queue")
    cells = [
        (
            *(row["queue"], named(row)),
            *(number(row[name]) for name in ("n", "mean", "longest", "seconds")),
            percent(row["part_of_queue"]),
        )
        for row in rows
    ]
    return table(heads, cells, "No task that has a key has finished.")


def _counts(row: Row, names: tuple[str, ...]) -> list[str]:
    return [row["queue"], named(row), *(number(row[name]) for name in names)]
