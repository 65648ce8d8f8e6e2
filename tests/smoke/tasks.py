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


@shared_task
def nap(seconds: float) -> float:
    time.sleep(seconds)  # this is the work, here and below
    return seconds


@shared_task(acks_late=True)
def nap_acks_late(seconds: float) -> float:
    time.sleep(seconds)
    return seconds
