"""What lives as long as the worker's process; see `celery_fair.worker`."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Event
from time import monotonic
from typing import Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import Broker, RedisBroker, broker_of, refuse_broker
from celery_fair.brokers.depths import Depths
from celery_fair.brokers.kept import Kept
from celery_fair.brokers.keyed.store import KeyStore
from celery_fair.core.chooser import Chooser
from celery_fair.core.pricing import Mean, Pricing
from celery_fair.core.window import RefillMeter
from celery_fair.ledger import ledger_at
from celery_fair.routing.declared import declare_queues, select_levels
from celery_fair.settings import QueueOptions, Settings
from celery_fair.tasks import non_repeatable
from celery_fair.worker import patches
from celery_fair.worker.dispatch.gates import Gates
from celery_fair.worker.dispatch.prices import Costs, Runtimes, Served
from celery_fair.worker.dispatch.sizing import Sizing
from celery_fair.worker.launch.admission import Claims
from celery_fair.worker.launch.in_flight import InFlight, Slots
from celery_fair.worker.launch.pool import ObservedPool, PlainWay
from celery_fair.worker.launch.requests import Handover
from celery_fair.worker.observe.answers import Answers
from celery_fair.worker.observe.figures import Labels, Observed
from celery_fair.worker.observe.recorder import recorder_for
from celery_fair.worker.observe.targets import TargetWatch
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.keyed.by_key import Keys
from celery_fair.worker.queues.open_feeds import OpenFeeds
from celery_fair.worker.releases import untried
from celery_fair.worker.wake_up import WakeUp, wake_up_of

logger = logging.getLogger(__name__)

_METRICS_QUEUES = 100
"""Queues that have figures of their own; a queue has some thirty series in each worker."""

_PATIENCE = 5.0
"""Seconds for the broker to answer where nobody waits."""

_DEPTHS = 5.0
"""Seconds between two questions for what waits at the broker, for the metrics."""


def _key_has_ended(request: Any, seconds: float) -> None:  # noqa: ARG001
    """What has ended is known, where its queue is shared by key."""
    if request.message.turn is not None:
        request.message.feed.by_key.ended(request.message)


def _key_is_charged(request: Any, seconds: float) -> None:
    """What a message took, its key's tags are charged, where its queue is shared by key."""
    if request.message.turn is not None:
        request.message.feed.by_key.charged(request.message, seconds)


def _has_run(run_times: dict[str, Mean], request: Any, seconds: float) -> None:
    run_times[request.message.feed.name].add(seconds)


class Parts:
    """A worker's parts that outlive connections, wired in the order in which they need each other.

    Arguments:
        c: Celery's consumer. Its pool and its ``on_task_request`` are replaced at once, before
            Celery makes its strategies from them.

    Raises:
        celery.exceptions.ImproperlyConfigured: a setting's value cannot be used.
    """

    def __init__(self, c: Any) -> None:
        self._c = c
        broker = broker_of(c.conninfo)
        self.settings = settings = _settings(c, broker)
        declare_queues(c.app, settings)
        select_levels(c.app, settings)
        if settings.dead_letters in c.app.amqp.queues.consume_from:
            raise ImproperlyConfigured(
                f"fair_dead_letters: {settings.dead_letters!r} is consumed, and what may have"
                " started would start again; leave it out of -Q, task_queues and fair_queues"
            )
        self._has_news = Event()
        self.kept = Kept(settings, c.app.connection_for_read, self._tell_news)
        self.gates = Gates(settings, c.hostname, self.kept.of)
        store = _key_store(settings, broker)
        self.keys = Keys(
            c.app,
            settings.keys,
            store,
            lambda: store or broker.impatient(c.app.connection_for_read(), _PATIENCE),
        )
        self.meter = RefillMeter()
        self.sizing = Sizing(self.gates.options, self.meter)
        self.tokens: dict[str, int] = {}
        self.wake_up = wake_up_of(c.hub, c.timer, broker.pushes)

        pricing: Pricing | None = None
        self.prices: Runtimes | Costs
        ended: list[Callable[[Any, float], object]] = []
        if settings.keys:
            ended.append(_key_has_ended)
        if isinstance(settings.cost, str):
            pricing = Pricing()
            self.prices = runtimes = Runtimes(pricing, settings.cost_key, settings.cost_model)
            ended.append(runtimes.ended)
            if settings.keys:
                ended.append(_key_is_charged)
        else:
            self.prices = Costs(settings.cost)
        self.path = way_of(settings)
        way = self.path.into(c.pool, _freed(c, self.wake_up))
        self.in_flight = InFlight(way.ended, ended)

        label = Labels(_METRICS_QUEUES, settings.queues).of
        self.observed = () if settings.metrics is None else (Observed(label),)
        self.chooser = Chooser(
            self.in_flight,
            settings.policy == "strict",
            settings.max_wait,
            pricing,
            self.observed,
            settings.targets,
        )
        self.feeds = OpenFeeds(self.chooser)
        recorder = recorder_for(c, settings, self.feeds, self.chooser)
        self.recorders = () if recorder is None else (recorder,)

        self.pool = ObservedPool(c.pool, self.in_flight, way, self.recorders, self.wake_up.held)
        self.handover = Handover(self.wake_up)
        self.slots = Slots(c.controller, self.in_flight, c.on_task_request)
        self.targets: tuple[TargetWatch, ...] = ()
        if (urgency := self.chooser.urgency) is not None:
            self.targets = (TargetWatch(self.chooser, urgency, self.slots),)
            ended += [partial(_has_run, urgency.floors.run_times), self.targets[0].ended]
        self.served = Served()
        self.claims = Claims(
            None if settings.ledger is None else ledger_at(settings.ledger, settings.ledger_expiry),
            settings.ledger_since,
        )
        self.answers = Answers(
            settings,
            self.feeds,
            self.chooser,
            self.slots,
            self.served,
            c.app.main or "",
            self.targets,
        )
        self.servers = tuple(each for watch in self.observed for each in self._metrics(c, watch))
        self._take_over(c)

    def change(self, queue: str, options: QueueOptions) -> None:
        """Give a queue other options, from now on and on every later connection."""
        feed = self.feeds.named(queue)
        if feed is not None and options.quantum != feed.gate.options.quantum:
            self.chooser.reweight(feed.flow, options.quantum)
        if self.chooser.urgency is not None:
            self.chooser.urgency.aim(queue, options.target, monotonic())
        self.gates.change(queue, options)
        self._regate(feed)
        self._c.call_soon(self.sizing.at_once)

    def pause(self, queue: str, paused: bool) -> None:
        """Hold a queue back, or end that."""
        self.gates.of(queue).pause(paused)
        self._regate(self.feeds.named(queue))

    def _regate(self, feed: Feed | None) -> None:
        if feed is not None:
            self.chooser.regate(feed.flow, monotonic())
        self.wake_up.later()

    def set_live(self, queue: str) -> None:
        """A command has changed a queue, and may keep it: that is looked at when it has."""
        self.gates.set_live(queue)
        self.kept.look_again()

    def _tell_news(self) -> None:
        self._has_news.set()
        self.wake_up.soon()

    def _take_in_kept(self) -> None:
        self._has_news.clear()
        for queue, options in self.gates.news():
            logger.warning("Queue %s goes by what is kept of it by now, see fair set", queue)
            self.change(queue, replace(self.gates.options(queue), **options))

    def after_turn(self, now: float) -> None:
        """The dispatcher has run."""
        if self._has_news.is_set():
            self._take_in_kept()
        for each in self.targets:
            self.wake_up.at(each.after_turn(now))

    def _take_over(self, c: Any) -> None:
        patches.look_at_tracer_again()
        patches.replace_pool(c, self.pool)
        patches.replace_requests(c, self.handover.on_request)
        patches.end_in_the_loop(self.wake_up.interrupt)
        patches.replace_loop(c, self.wake_up)
        patches.replace_add(c)

    def _metrics(self, c: Any, observed: Observed) -> tuple[Any, Depths]:
        """Return what serves them, and what asks the broker for some of them; to be started."""
        try:
            from celery_fair.worker.observe.metrics import FairCollector, MetricsServer
        except ImportError as exc:
            raise ImproperlyConfigured(
                f"fair_metrics = '{self.settings.metrics}' needs a package ({exc}):"
                " pip install celery-fair[prometheus]"
            ) from exc
        assert self.settings.metrics is not None
        depths = Depths(c.app.connection_for_read, self.settings.keys, _DEPTHS)
        collector = FairCollector(self.answers, observed, depths, self.settings.dead_letters)
        return MetricsServer(self.settings.metrics, collector), depths

    def close(self) -> None:
        """Leave nothing open."""
        self.kept.close()
        self.claims.close()
        self.keys.close()
        self.wake_up.close()
        for server in self.servers:
            server.close()
        for recorder in self.recorders:
            recorder.queues.close()


def _freed(c: Any, wake_up: WakeUp) -> Callable[[], object]:
    """Return what is called when a slot has become free."""
    if c.pool.is_green:  # one that ends still occupies its slot, and would wait for itself
        return wake_up.later
    return wake_up.freed if c.hub else wake_up.soon


def _settings(c: Any, broker: Broker) -> Settings:
    settings = Settings.of(c.app)
    refuse_broker(c.conninfo, settings, non_repeatable(c.app), bool(c.hub))
    if broker.excludes:
        settings = settings.fenced()
    if isinstance(broker, RedisBroker) and c.app.conf.get("worker_disable_prefetch"):
        settings = settings.pulling()  # on other brokers Celery says that it ignores it
    return settings


def _key_store(settings: Settings, broker: Broker) -> KeyStore | None:
    """Return what keeps count of what keys run, if the broker does not."""
    if not settings.keys or broker.keeps_tags or settings.key_store is None:
        return None
    return KeyStore(settings.key_store)


def way_of(settings: Settings) -> PlainWay:
    """Return how messages go: by the fast path, where that is wanted and known to fit."""
    if not settings.fast_path or untried():
        return PlainWay()
    from celery_fair.worker.fast_path.path import FastPath

    return FastPath()
