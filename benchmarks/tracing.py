"""The same app under OpenTelemetry's instrumentation; its spans are exported to nowhere.

As its documentation says, a process of a prefork pool begins after the fork.
"""

from collections.abc import Sequence
from typing import Any

from celery.signals import celeryd_init, worker_process_init
from opentelemetry import trace
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from benchmarks.counted import app

__all__ = ["app"]


class Silent(SpanExporter):
    """Takes what there is, and keeps nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def begin(**_: Any) -> None:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Silent()))
    trace.set_tracer_provider(provider)
    CeleryInstrumentor().instrument()


@celeryd_init.connect(weak=False)
def begin_here(options: Any = None, **_: Any) -> None:
    if "prefork" not in str((options or {}).get("pool_cls")):
        begin()


worker_process_init.connect(begin, weak=False)
