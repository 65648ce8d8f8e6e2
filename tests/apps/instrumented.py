"""Tasks of every outcome, and what those note who look on; which they are, a variable says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sentry_sdk
from celery import Task, signals
from celery.exceptions import Ignore
from celery.worker.request import Request
from opentelemetry import trace
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from sentry_sdk.transport import Transport

from tests.apps.shares import app, settings

__all__ = ["app"]

OF_A_WORKER = {"celery.hostname", "celery.reply_to"}
VALUES = {"args", "kwargs", "retval", "state", "result"}
VARIABLE = "CELERY_FAIR_TEST_INSTRUMENT"

noted = os.open(Path(f"{settings.records}.noted"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def note(task: Any, *what: Any) -> None:
    os.write(noted, json.dumps([str(task), *what], default=repr, sort_keys=True).encode() + b"\n")


# Sentry -----------------------------------------------------------------------------


class Noting(Transport):
    """Notes what would be sent."""

    def capture_envelope(self, envelope: Any) -> None:
        for item in envelope.items:
            event = item.payload.json or {}
            traced = event.get("contexts", {}).get("trace", {})
            raised = [each["type"] for each in event.get("exception", {}).get("values", ())]
            job = event.get("extra", {}).get("celery-job", {})
            note(
                event.get("tags", {}).get("celery_task_id"),
                item.type,
                event.get("transaction"),
                [traced.get(name) for name in ("op", "origin", "status")],
                raised,
                {name: job[name] for name in sorted(job)},
                sorted(span["op"] for span in event.get("spans", ())),
            )


def sentry() -> None:
    sentry_sdk.init(dsn="http://key@localhost/1", transport=Noting, traces_sample_rate=1.0)


# OpenTelemetry ----------------------------------------------------------------------


class Exporter(SpanExporter):
    """Notes what would be exported."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            said = dict(span.attributes or {})
            task = said.pop("messaging.message.id", said.pop("messaging.message_id", None))
            attributes = {name: said[name] for name in said if name not in OF_A_WORKER}
            events = [event.name for event in span.events]
            note(task, span.name, span.kind.name, span.status.status_code.name, attributes, events)
        return SpanExportResult.SUCCESS


def begin_spans(**_: Any) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Exporter()))
    trace.set_tracer_provider(provider)
    CeleryInstrumentor().instrument()


def opentelemetry() -> None:
    @signals.celeryd_init.connect(weak=False)
    def begin_here(options: Any = None, **_: Any) -> None:
        if "prefork" not in str((options or {}).get("pool_cls")):
            begin_spans()

    signals.worker_process_init.connect(begin_spans, weak=False)


# Celery's own -----------------------------------------------------------------------


OF_RUNS = (
    *("task_prerun", "task_postrun", "task_success", "task_failure"),
    *("task_retry", "task_revoked", "task_internal_error"),
)


def receivers(*names: str) -> None:
    for name in names or ("task_received", *OF_RUNS):
        getattr(signals, name).connect(receiver_of(name), weak=False)


def late_receivers() -> None:
    """Connected when the worker is at work already, and has received it is not known what."""

    @signals.task_prerun.connect(weak=False)
    def first(task_id: str, **_: Any) -> None:
        if task_id == "first" and not signals.task_success.receivers:
            receivers(*OF_RUNS)


def receiver_of(name: str) -> Callable[..., None]:
    def receiver(sender: Any = None, **said: Any) -> None:
        request = said.get("request")
        task = said.get("task_id") or getattr(request, "id", None) or sender.request.id
        values = {key: said[key] for key in VALUES & said.keys()}
        note(task, name, getattr(sender, "name", type(sender).__name__), sorted(said), values)

    return receiver


class Called(Task):  # type: ignore[type-arg]
    """Its call is its own."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        note(self.request.id, "called", args, kwargs, self.request.retries)
        return self.run(*args, **kwargs)


class NotingRequest(Request):
    """Notes what becomes of it in the worker's main process."""

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        note(self.id, "accepted")
        super().on_accepted(pid, time_accepted)

    def on_success(self, failed__retval__runtime: Any, **kwargs: Any) -> Any:
        note(self.id, "success", failed__retval__runtime[0])
        return super().on_success(failed__retval__runtime, **kwargs)

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        note(self.id, "failure", type(exc_info.exception).__name__)
        return super().on_failure(exc_info, *args, **kwargs)


class Requested(Task):  # type: ignore[type-arg]
    Request = NotingRequest


class Handled(Task):  # type: ignore[type-arg]
    """It has handlers of its own."""

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        note(task_id, "before_start")

    def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:
        note(task_id, "on_success", retval)

    def on_failure(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        note(task_id, "on_failure", type(exc).__name__)

    def on_retry(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        note(task_id, "on_retry")

    def after_return(
        self, status: str, retval: Any, task_id: str, args: Any, kwargs: Any, einfo: Any
    ) -> None:
        note(task_id, "after_return", status)


LOOKING: dict[str, Callable[[], None]] = {
    "sentry": sentry,
    "opentelemetry": opentelemetry,
    "receivers": receivers,
    "late": late_receivers,
}
BASES: dict[str, type[Any]] = {"call": Called, "request": Requested, "handlers": Handled}
which = os.environ.get(VARIABLE, "")
LOOKING.get(which, lambda: None)()
base = BASES.get(which, app.Task)


@app.task(base=base, bind=True, name="succeeds", shared=False)
def succeeds(self: Any, number: int, more: Any = None) -> Any:
    return {"number": number, "more": more}


@app.task(base=base, bind=True, name="fails", shared=False, throws=(KeyError,))
def fails(self: Any, number: int) -> None:
    raise KeyError("expected") if number == 1 else ValueError("unexpected")


@app.task(base=base, bind=True, name="again", shared=False)
def again(self: Any, number: int) -> int:
    if not self.request.retries:
        raise self.retry(countdown=0)
    return number


@app.task(base=base, bind=True, name="ignores", shared=False)
def ignores(self: Any) -> None:
    raise Ignore
