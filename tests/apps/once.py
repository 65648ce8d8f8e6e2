"""Non-repeatable tasks that record their starts and ends."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from celery_fair import NonRepeatableTask
from tests.apps.shares import app, finish, start


def until_open(self: Any, seq: int, gate: str = "") -> None:
    """Run until the file `gate` exists, if one is named."""
    start(self, seq)
    while gate and not Path(gate).exists():
        time.sleep(0.002)
    finish(self, seq)


for ack in ("before", "after"):
    app.task(base=NonRepeatableTask, bind=True, name=ack, ack=ack)(until_open)
app.task(base=NonRepeatableTask, bind=True, name="confirmed", confirm=True)(until_open)


@app.task(base=NonRepeatableTask, bind=True, name="retries")
def retries(self: Any, seq: int) -> None:
    start(self, seq)
    self.retry()
