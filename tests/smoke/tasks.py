"""Tasks of the smoke profile; pytest-celery copies this file to the worker."""

import time
from typing import Any

from celery import shared_task


@shared_task
def add(x: int, y: int) -> int:
    return x + y


@shared_task
def now() -> float:
    """When this ran."""
    return time.time()


def _work_for(seconds: float) -> float:
    time.sleep(seconds)  # the work itself; no test waits by it
    return seconds


@shared_task
def nap(seconds: float) -> float:
    return _work_for(seconds)


@shared_task(acks_late=True, bind=True)
def nap_acks_late(self: Any, seconds: float) -> float:
    """The first time it takes until its worker is killed."""
    return _work_for(seconds if self.request.delivery_info["redelivered"] else 60)
