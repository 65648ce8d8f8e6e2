"""An app whose tasks do nothing but count, or then take some time; some are non-repeatable."""

from benchmarks.repeatable import app, nothing
from celery_fair import NonRepeatableTask

__all__ = ["app"]

for ack in ("before", "after"):
    app.task(base=NonRepeatableTask, name=ack, ack=ack)(nothing)
app.task(base=NonRepeatableTask, name="confirmed", confirm=True)(nothing)
