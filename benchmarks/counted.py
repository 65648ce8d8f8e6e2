"""An app whose tasks do nothing but count."""

from benchmarks.counts import Counter
from celery_fair import NonRepeatableTask
from tests.apps.shares import app, settings

__all__ = ["app"]

_start = Counter(settings.records)


def nothing(seq: int) -> None:  # noqa: ARG001 - the publisher's
    _start()


app.task(name="plain")(nothing)
for ack in ("before", "after"):
    app.task(base=NonRepeatableTask, name=ack, ack=ack)(nothing)
app.task(base=NonRepeatableTask, name="confirmed", confirm=True)(nothing)
