"""An app whose tasks do nothing but count, or then take some time."""

from collections.abc import Callable
from time import sleep

from benchmarks.counts import Counter
from celery_fair import NonRepeatableTask
from tests.apps.shares import app, settings

__all__ = ["app"]

_start = Counter(settings.records)


def nothing(seq: int) -> None:  # noqa: ARG001 - the publisher's
    _start()


def waiting(ms: int) -> Callable[[int], None]:
    """Return a task's function that waits so long."""

    def wait(seq: int) -> None:  # noqa: ARG001
        _start()
        sleep(ms / 1000)

    return wait


app.task(name="plain")(nothing)
app.task(name="kept", ignore_result=False)(nothing)
for ms in (1, 3, 5, 10, 30):
    app.task(name=f"{ms} ms")(waiting(ms))
for ack in ("before", "after"):
    app.task(base=NonRepeatableTask, name=ack, ack=ack)(nothing)
app.task(base=NonRepeatableTask, name="confirmed", confirm=True)(nothing)
