"""An app whose tasks do nothing but count, or then take some time."""

from time import sleep

from benchmarks.counts import Counter
from celery_fair import NonRepeatableTask
from tests.apps.shares import app, settings

__all__ = ["app"]

_start = Counter(settings.records)


def nothing(seq: int) -> None:  # noqa: ARG001 - the publisher's
    _start()


def one_ms(seq: int) -> None:  # noqa: ARG001
    _start()
    sleep(0.001)


def five_ms(seq: int) -> None:  # noqa: ARG001
    _start()
    sleep(0.005)


def ten_ms(seq: int) -> None:  # noqa: ARG001
    _start()
    sleep(0.01)


app.task(name="plain")(nothing)
app.task(name="kept", ignore_result=False)(nothing)
app.task(name="1 ms")(one_ms)
app.task(name="5 ms")(five_ms)
app.task(name="10 ms")(ten_ms)
for ack in ("before", "after"):
    app.task(base=NonRepeatableTask, name=ack, ack=ack)(nothing)
app.task(base=NonRepeatableTask, name="confirmed", confirm=True)(nothing)
