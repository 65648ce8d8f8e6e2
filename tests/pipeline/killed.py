"""A driver that reads a folder of logs, and is killed by the system at a step of that.

``python -m tests.pipeline.killed STEP LOGS WAREHOUSE``
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from celery_fair.pipeline import ingest as ingesting
from celery_fair.pipeline.ingest import ingest
from celery_fair.pipeline.session import Work, open_session
from celery_fair.pipeline.warehouse import Run, Warehouse

__all__ = ["STEPS"]

STEPS = {
    "begun": (Run, "split"),
    "staged": (Path, "rename"),
    "silver": (ingesting, "renew_by_process"),
    "settled": (os, "fsync"),
    "drafted": (Path, "replace"),
    "published": (Run, "_is_past"),
}
"""What it was about to do."""


def kill(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(step: str, logs: str, warehouse: str) -> None:
    spark = open_session("local[1]", work=Work.LITTLE)
    setattr(*STEPS[step], kill)
    ingest(Warehouse(spark, Path(warehouse)), Path(logs), include_open=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
