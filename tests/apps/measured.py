"""A task of a known amount of work that records what this took of the processor.

A processor that is shared runs now faster, now slower; by this task's own time
the rest of the worker can be measured.
"""

from __future__ import annotations

import time
from typing import Any

from tests.apps.shares import app, finished, start

__all__ = ["app"]


@app.task(bind=True, name="count")
def count(self: Any, seq: int, steps: int) -> None:
    """Count, and record the processor time in nanoseconds as the finish's sequence number."""
    start(self, seq)
    began = time.thread_time_ns()
    for _ in range(steps):
        pass
    took = time.thread_time_ns() - began
    finished(self.request.delivery_info["routing_key"], self.request.id, took)
