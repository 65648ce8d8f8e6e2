"""The result as plain data, for ``--json``."""

from pathlib import Path
from typing import Any

from celery_fair.cli.demo.shares.published import TABLES
from celery_fair.cli.demo.shares.shares import TOLERANCE, Result, Shares
from celery_fair.cli.demo.shares.workload import COST, QUANTA, QUEUES
from celery_fair.cli.demo.worker import Setup

__all__ = ["report"]


def report(setup: Setup, results: list[Result], event_log: Path | None) -> dict[str, Any]:
    """Return all that the other outputs show, in types of JSON."""
    return {
        "fair": all(result.shares.fair for result in results),
        "tolerance": TOLERANCE,
        "broker": str(setup.broker),
        "pool": setup.pool,
        "concurrency": setup.concurrency,
        "cost": COST,
        "event_log": None if event_log is None else str(event_log),
        "workloads": [_workload(result) for result in results],
    }


def _workload(result: Result) -> dict[str, Any]:
    workload = result.workload
    table = TABLES.get(workload.work)
    return {
        "work_us": workload.work,
        "messages_per_queue": workload.messages,
        "published": workload.published,
        "started": len(result.starts),
        "left_out": workload.warm_up,
        "seconds": result.seconds,
        "rate": result.rate,
        "fair": result.shares.fair,
        **_figures(result.shares),
        "source": table and {"table": table.name, "rate": table.rate, **_figures(table.shares)},
    }


def _figures(shares: Shares) -> dict[str, Any]:
    columns = QUEUES, QUANTA, shares.counts, shares.targets, shares.achieved, shares.errors
    return {
        "max_error": shares.max_error,
        "ratio": shares.ratio,
        "jain": shares.jain,
        "queues": [
            dict(zip(("queue", "quantum", "count", "target", "share", "error"), row, strict=True))
            for row in zip(*columns, strict=True)
        ],
    }
