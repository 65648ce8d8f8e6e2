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

import errno
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import ThreadingHTTPServer
from itertools import accumulate
from socketserver import TCPServer
from threading import Thread
from time import monotonic
from typing import Any
from weakref import WeakSet

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
from celery_fair.settings import Address
from celery_fair.worker.observe.answers import Answers
from celery_fair.worker.observe.figures import (
    BOUNDS,
    KeyFigures,
    Labels,
    LetterFigures,
    Observed,
    Waits,
)
from celery_fair.worker.queues.feed import Feed

logger = logging.getLogger(__name__)

_PATIENCE = 10
"""Seconds that a client is given for its request."""


class MetricsServer:
    """Serves a registry at an address.

    Raises:
        celery.exceptions.ImproperlyConfigured: the address cannot be listened at.
    """

    def __init__(self, address: Address, registry: Any) -> None:
        handler = type("Handler", (_Handler,), {"registry": registry})
        try:
            self._server = _server_class(address)(address, handler)
        except OSError as exc:
            raise ImproperlyConfigured(_refusal(address, exc)) from exc
        self._thread: Thread | None = None
        _listening.add(self._server)

    def start(self) -> None:
        """Begin to answer; again does nothing."""
        if self._thread is None:
            self._thread = Thread(
                target=self._server.serve_forever, name="fair-metrics", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Answer no more, and give the port back."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_port = False  # two workers behind one port would be mixed up

    def server_bind(self) -> None:
        """As the base's base: HTTPServer's own asks the name service for its host."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is not worth a traceback on the worker's standard error."""
        logger.debug("No metrics for %s: %r", client_address, sys.exception())


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(MetricsHandler):
    registry: Collector
    timeout = _PATIENCE


_listening: WeakSet[_Server] = WeakSet()


def _close_in_child() -> None:
    for server in _listening:
        server.socket.close()


os.register_at_fork(after_in_child=_close_in_child)


def _server_class(address: Address) -> type[_Server]:
    return _Server6 if ":" in address.host else _Server


def _refusal(address: Address, exc: OSError) -> str:
    if exc.errno == errno.EADDRINUSE:
        return (
            f"fair_metrics: {address} is in use, by another worker with the same setting or by"
            " another program; give each worker of a machine a port of its own"
        )
    return f"fair_metrics: cannot listen at {address}: {exc.strerror or exc}"


_BUCKETS = (*map(str, BOUNDS), "+Inf")


def metrics_server(address: Address, collector: Collector) -> MetricsServer:
    """Return a server of the worker's metrics, bound to its address, not yet started.

    Raises:
        celery.exceptions.ImproperlyConfigured: the address cannot be listened at.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    return MetricsServer(address, registry)


class FairCollector(Collector):
    """Reads one worker, from the server's threads: only what is copied in one step.

    Arguments:
        depths: knows what waits at the broker, once it was started.
        dead_letters: the name of the queue of dead letters.
    """

    def __init__(
        self,
        answers: Answers,
        labels: Labels,
        observed: Observed,
        keys: Iterable[KeyFigures],
        letters: LetterFigures,
        depths: Depths,
        dead_letters: str,
    ) -> None:
        self._answers = answers
        self._labels = labels
        self._observed = observed
        self._keys = tuple(keys)
        self._letters = letters
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
        for keys in self._keys:
            yield from self._of_keys(keys)

    def _totals(self, feeds: list[Feed]) -> Iterator[Metric]:
        served, none = self._answers.served, dict.fromkeys((feed.name for feed in feeds), 0)
        yield self._counter("served_messages", "Messages started.", none | dict(served.count))
        yield self._counter(
            "served_cost", "Cost of the messages started.", none | dict(served.cost)
        )

    def _shares(self) -> Iterator[Metric]:
        shares = self._answers.shares(monotonic())
        yield self._gauge(
            "target_share",
            "The queue's quantum by those of all queues active in the last ten seconds.",
            {queue: target for queue, (target, _) in shares.items()},
        )
        yield self._gauge(
            "achieved_share",
            "The queue's part of the cost served in the last ten seconds.",
            {queue: achieved for queue, (_, achieved) in shares.items()},
        )

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

        held = CounterMetricFamily(
            "celery_fair_held_seconds",
            "Time for which the queue had a message and was held back.",
            labels=["queue", "reason"],
        )
        labels = {self._labels.of(feed.name) for feed in feeds}
        none = {(label, reason): 0.0 for label in labels for reason in REASONS}
        for key, seconds in (none | self._observed.held_seconds(monotonic())).items():
            held.add_metric(key, seconds)
        yield held

    def _waiting(self, feeds: list[Feed]) -> Iterator[Metric]:
        names = [feed.name for feed in feeds]
        self._depths.ask_about([*names, self._dead_letters])
        known = {name: depth.messages for name in names if (depth := self._depths.of(name))}
        yield self._gauge("waiting_messages", "Messages that wait at the broker.", known)

    def _dead(self) -> Iterator[Metric]:
        made = CounterMetricFamily(
            "celery_fair_dead_letters",
            "Messages that went from the queue to the dead letters.",
            labels=["queue", "reason"],
        )
        for place, count in self._letters.made().items():
            made.add_metric(place, count)
        yield made
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
        kept = [each for each in looked.kept.values() if self._labels.of(each.queue) == each.queue]
        for name, text, values in (
            ("seconds", "What its messages may wait.", {k.queue: k.target.seconds for k in kept}),
            ("part", "How many of them, at the least.", {k.queue: k.target.part for k in kept}),
            (
                "wait_seconds",
                "Within which that part of them started, in the last minute.",
                {k.queue: k.wait for k in kept if k.wait is not None},
            ),
            (
                "in_time_part",
                "How many of them were in time, in the last minute.",
                {k.queue: k.in_time for k in kept if k.in_time is not None},
            ),
        ):
            yield self._gauge(f"target_{name}", text, values)

    def _of_keys(self, keys: KeyFigures) -> Iterator[Metric]:
        place = ["queue", "key"]
        started = CounterMetricFamily("celery_fair_key_started", "Messages started.", labels=place)
        for labels, count in keys.started().items():
            started.add_metric(labels, count)
        yield started
        running = GaugeMetricFamily("celery_fair_key_running", "Tasks that run.", labels=place)
        for labels, count in keys.running(list(self._answers.in_flight)).items():
            running.add_metric(labels, count)
        yield running
        text = "From publishing to the start, of messages whose key had nothing else waiting."
        yield _histogram("first_wait_seconds", text, keys.first_waits())

    def _counter(self, name: str, text: str, values: Mapping[str, float]) -> Metric:
        family = CounterMetricFamily(f"celery_fair_{name}", text, labels=["queue"])
        for label, value in self._summed(values).items():
            family.add_metric([label], value)
        return family

    def _gauge(self, name: str, text: str, values: Mapping[str, float]) -> Metric:
        family = GaugeMetricFamily(f"celery_fair_{name}", text, labels=["queue"])
        for label, value in self._summed(values).items():
            family.add_metric([label], value)
        return family

    def _summed(self, values: Mapping[str, float]) -> dict[str, float]:
        summed: dict[str, float] = {}
        for queue, value in values.items():
            label = self._labels.of(queue)
            summed[label] = summed.get(label, 0.0) + value
        return summed


def _histogram(name: str, text: str, waits: Mapping[str, Waits]) -> Metric:
    family = HistogramMetricFamily(f"celery_fair_{name}", text, labels=["queue"])
    for label, (counts, seconds) in waits.items():
        buckets = list(zip(_BUCKETS, map(float, accumulate(counts)), strict=True))
        family.add_metric([label], buckets, seconds)
    return family
