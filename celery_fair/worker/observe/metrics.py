"""The worker's figures for Prometheus, and the HTTP server that they are fetched from.

Nearly all of them are read when Prometheus asks, from what the worker keeps anyway; a worker that
serves no metrics pays nothing, one that does pays for its histogram of waits, and for a thread that
asks the broker how many messages wait there. Needs the extra ``prometheus``.

The number of time series is bounded: the first `most` queues have their own label, and all others
are summed up under "other". A label is given once, so that no counter ever goes back.

The server is bound before the pool is made, so that a worker whose port is taken ends at once, and
serves after, in a thread of the main process. A process that the pool forks would hold on to the
listening socket: then the port of a worker that was killed stays taken by what is left of it. So a
child first of all closes it.
"""

import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from http.server import ThreadingHTTPServer
from itertools import accumulate
from socketserver import TCPServer
from threading import Thread
from time import monotonic
from typing import Any

from celery.exceptions import ImproperlyConfigured
from prometheus_client import MetricsHandler
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from celery_fair.brokers.depths import Depths
from celery_fair.core.gate import REASONS
from celery_fair.settings.values import Address
from celery_fair.worker.observe.answers import Answers
from celery_fair.worker.observe.figures import BOUNDS, Observed, Waits
from celery_fair.worker.queues.feed import Feed

logger = logging.getLogger(__name__)

_PATIENCE = 10
"""Seconds that a client is given for its request."""


class MetricsServer(ThreadingHTTPServer):
    """Serves what a collector reads, at an address. Bound, and not yet started.

    Raises:
        celery.exceptions.ImproperlyConfigured: the address cannot be listened at.
    """

    daemon_threads = True
    allow_reuse_port = False  # two workers behind one port would be mixed up

    def __init__(self, address: Address, collector: Collector) -> None:
        registry = CollectorRegistry()
        registry.register(collector)
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        handler = type("Handler", (MetricsHandler,), {"registry": registry, "timeout": _PATIENCE})
        try:
            super().__init__(address, handler)
        except OSError as exc:
            raise ImproperlyConfigured(
                f"fair_metrics: cannot listen at {address}: {exc.strerror or exc}; each worker of a"
                " machine needs a port of its own"
            ) from exc
        os.register_at_fork(after_in_child=self.socket.close)
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin to answer; again does nothing."""
        if self._thread is None:
            self._thread = Thread(target=self.serve_forever, name="fair-metrics", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Answer no more, and give the port back."""
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
        self.server_close()

    def server_bind(self) -> None:
        """As the base's base: HTTPServer's own asks the name service for its host."""
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is not worth a traceback on the worker's standard error."""
        logger.debug("No metrics for %s: %r", client_address, sys.exception())


_BUCKETS = (*map(str, BOUNDS), "+Inf")


class FairCollector(Collector):
    """Reads one worker, from the server's threads: only what is copied in one step.

    Arguments:
        depths: knows what waits at the broker, once it was started.
        dead_letters: the name of the queue of dead letters.
    """

    def __init__(
        self,
        answers: Answers,
        observed: Observed,
        depths: Depths,
        dead_letters: str,
    ) -> None:
        self._answers = answers
        self._observed = observed
        self._label = observed.label
        self._depths = depths
        self._dead_letters = dead_letters

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        feeds = list(self._answers.feeds)
        yield from self._totals(feeds)
        yield from self._shares()
        yield from self._states(feeds)
        yield from self._times(feeds)
        yield from self._waiting(feeds)
        yield from self._dead()
        yield from self._slots()
        yield from self._targets()
        yield from self._of_keys()

    def _totals(self, feeds: list[Feed]) -> Iterator[Metric]:
        served, none = self._answers.served, dict.fromkeys((feed.name for feed in feeds), 0)
        yield self._counter("served_messages", "Messages started.", none | served.count)
        yield self._counter("served_cost", "Cost of the messages started.", none | served.cost)

    def _shares(self) -> Iterator[Metric]:
        shares = self._answers.shares(monotonic())
        text = "The queue's quantum by those of all queues active in the last ten seconds."
        yield self._gauge("target_share", text, {name: aim for name, (aim, _) in shares.items()})
        text = "The queue's part of the cost served in the last ten seconds."
        yield self._gauge("achieved_share", text, {name: got for name, (_, got) in shares.items()})

    def _states(self, feeds: list[Feed]) -> Iterator[Metric]:
        of = self._answers.in_flight.of
        gauges: list[tuple[str, str, Callable[[Feed], float]]] = [
            ("credit", "The deficit counter, in units of cost.", lambda f: f.flow.deficit),
            ("window_messages", "Unsettled deliveries allowed.", lambda f: f.window.size),
            ("buffered_messages", "Messages that wait at the worker.", lambda f: len(f.buffer)),
            ("in_flight_messages", "Tasks that run.", lambda f: of(f.name)),
        ]
        for name, text, value in gauges:
            yield self._gauge(name, text, {feed.name: value(feed) for feed in feeds})

    def _times(self, feeds: list[Feed]) -> Iterator[Metric]:
        text = "From a message's arrival at the worker to its start."
        yield _histogram("wait_seconds", text, self._observed.waits())

        labels = {self._label(feed.name) for feed in feeds}
        none = {(label, reason): 0.0 for label in labels for reason in REASONS}
        text = "Time for which the queue had a message and was held back."
        held = none | self._observed.held_seconds(monotonic())
        yield _family(CounterMetricFamily, "held_seconds", text, held, "reason")

    def _waiting(self, feeds: list[Feed]) -> Iterator[Metric]:
        names = [feed.name for feed in feeds]
        self._depths.ask_about([*names, self._dead_letters])
        known = {name: depth.messages for name in names if (depth := self._depths.of(name))}
        yield self._gauge("waiting_messages", "Messages that wait at the broker.", known)

    def _dead(self) -> Iterator[Metric]:
        text = "Messages that went from the queue to the dead letters."
        yield _family(
            CounterMetricFamily, "dead_letters", text, self._observed.dead_letters(), "reason"
        )
        waiting = self._depths.of(self._dead_letters)
        yield GaugeMetricFamily(
            "celery_fair_dead_letter_messages",
            "Dead letters that wait for somebody to look.",
            None if waiting is None else waiting.messages,
        )

    def _slots(self) -> Iterator[Metric]:
        slots, busy = self._answers.slots.here(), len(self._answers.in_flight)
        yield GaugeMetricFamily("celery_fair_slots", "Tasks that the pool runs at once.", slots)
        yield GaugeMetricFamily("celery_fair_busy_slots", "Tasks that it runs now.", busy)

    def _targets(self) -> Iterator[Metric]:
        looked = self._answers.targets(monotonic())
        if looked is None:
            return
        yield GaugeMetricFamily(
            "celery_fair_slots_needed",
            "Slots that this worker's part of the load takes for targets to be kept; to be summed.",
            looked.needed,
        )
        kept = [each for each in looked.kept.values() if self._label(each.queue) == each.queue]
        text = "What its messages may wait."
        yield self._gauge("target_seconds", text, {k.queue: k.target.seconds for k in kept})
        text = "How many of them, at the least."
        yield self._gauge("target_part", text, {k.queue: k.target.part for k in kept})
        text = "Within which that part of them started, in the last minute."
        waits = {k.queue: k.wait for k in kept if k.wait is not None}
        yield self._gauge("target_wait_seconds", text, waits)
        text = "How many of them were in time, in the last minute."
        in_time = {k.queue: k.in_time for k in kept if k.in_time is not None}
        yield self._gauge("target_in_time_part", text, in_time)

    def _of_keys(self) -> Iterator[Metric]:
        started = self._observed.started_by_key()
        running = self._observed.running_by_key(self._answers.in_flight)
        yield _family(CounterMetricFamily, "key_started", "Messages started.", started, "key")
        yield _family(GaugeMetricFamily, "key_running", "Tasks that run.", running, "key")
        text = "From publishing to the start, of messages whose key had nothing else waiting."
        yield _histogram("first_wait_seconds", text, self._observed.waits(first=True))

    def _counter(self, name: str, text: str, values: Mapping[str, float]) -> Metric:
        return _family(CounterMetricFamily, name, text, self._summed(values))

    def _gauge(self, name: str, text: str, values: Mapping[str, float]) -> Metric:
        return _family(GaugeMetricFamily, name, text, self._summed(values))

    def _summed(self, values: Mapping[str, float]) -> dict[tuple[str], float]:
        summed: dict[tuple[str], float] = {}
        for queue, value in values.items():
            label = (self._label(queue),)
            summed[label] = summed.get(label, 0.0) + value
        return summed


def _family(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    name: str,
    text: str,
    values: Mapping[Any, float],
    *labels: str,
) -> Metric:
    """Return a metric by queue, and by what else has a label; it is known by the labels' values."""
    family = kind(f"celery_fair_{name}", text, labels=["queue", *labels])
    for place, value in values.items():
        family.add_metric(place, value)
    return family


def _histogram(name: str, text: str, waits: Mapping[str, Waits]) -> Metric:
    family = HistogramMetricFamily(f"celery_fair_{name}", text, labels=["queue"])
    for label, (counts, seconds) in waits.items():
        buckets = list(zip(_BUCKETS, map(float, accumulate(counts)), strict=True))
        family.add_metric([label], buckets, seconds)
    return family
