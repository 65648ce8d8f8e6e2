"""Tasks of the smoke profile; pytest-celery copies this file to the worker."""

import time

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


@shared_task(acks_late=True)
def nap_acks_late(seconds: float) -> float:
    return _work_for(seconds)
