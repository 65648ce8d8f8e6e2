"""The gates of a worker's queues, and the leash that all workers share, through Redis.

Gates outlive connections, like what was set live.

Of the shared leash one atomic script keeps the bucket, by the server's clock; a worker asks it once
per message of the queue, and after a refusal not before the time it was told. A token that several
wait for is theirs in turns, as long as they come for it. While Redis is away each worker keeps to
its share of the rate, by the number of workers that were last seen; together they then start no
more than the rate in the long run.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

from celery_fair.brokers.kept import KeptQueue
from celery_fair.brokers.redis import script_text
from celery_fair.core.gate import SLACK, Gate, Leash, LocalLeash
from celery_fair.redis_client import client_at
from celery_fair.settings import QueueOptions, Settings

logger = logging.getLogger(__name__)

_GONE_AFTER = 30
_RETRY = 1.0
_PATIENCE = 20  # times as long as an attempt took: the loop does not stand still for a silent host


class ClusterLeash:
    """The queue's bucket, as one worker sees it.

    Arguments:
        url: of the Redis.
        queue: the queue's name; workers that use the same name share a bucket.
        rate, burst: tokens per second, and at once.
        member: this worker's name.
        prefix: what keys begin with there; those of another app, with queues of the same names, may
            begin otherwise.

    Raises:
        celery.exceptions.ImproperlyConfigured: no client can be made for the URL.
    """

    def __init__(
        self, url: str, queue: str, rate: float, burst: float, member: str, prefix: str = ""
    ) -> None:
        self._script = _script_at(url)
        key = f"{prefix}celery-fair:leash:{{{queue}}}"
        self._keys = [key, f"{key}:members", f"{key}:waiting"]
        self._queue = queue
        self._rate = rate
        self._burst = burst
        self._member = member
        self._members = 1
        self._own: LocalLeash | None = None  # in use while Redis is away
        self._ask_at = 0.0

    def take(self, now: float) -> bool:
        if now < self._ask_at:
            return self._own is not None and self._own.take(now)
        return self._ask(now, 1)

    def give_back(self, now: float) -> None:
        if self._own is not None:
            self._own.give_back(now)
        else:
            self._ask(now, -1)

    def change(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        if self._own is not None:
            self._own.change(*self._share, now)
        self._ask_at = now

    def when(self, now: float) -> float:
        ask_at = max(now, self._ask_at)
        return ask_at if self._own is None else min(ask_at, self._own.when(now))

    def _ask(self, now: float, wanted: int) -> bool:
        from redis.exceptions import RedisError

        asked = monotonic()
        try:
            granted, wait, self._members = self._script(
                keys=self._keys,
                args=[self._rate, self._burst, wanted, SLACK, self._member, self._gone_after],
            )
        except (RedisError, OSError) as exc:
            self._ask_at = now + max(_RETRY, _PATIENCE * (monotonic() - asked))
            self._fall_back(now, exc)
            return wanted > 0 and self.take(now)
        if self._own is not None:
            self._own = None
            logger.warning("The shared leash of queue %s is back", self._queue)
        self._ask_at = now + float(wait)
        return bool(granted)

    def _fall_back(self, now: float, exc: Exception) -> None:
        if self._own is None:
            rate, burst = self._share
            self._own = LocalLeash(rate, burst, now)
            self._own.take(now, burst)  # the shared bucket may have been empty
            logger.warning(
                "The shared leash of queue %s cannot be reached (%s); until it is back, this worker"
                " keeps to its share of one in %s: %.3g/s",
                self._queue,
                exc,
                self._members,
                rate,
            )

    @property
    def _share(self) -> tuple[float, float]:
        """This worker's rate and burst while Redis is away."""
        return self._rate / self._members, max(1.0, self._burst / self._members)

    @property
    def _gone_after(self) -> float:
        """Seconds of silence; who was refused is silent until the next token."""
        return max(_GONE_AFTER, 3 / self._rate)


def _script_at(url: str) -> Any:
    client = client_at(url, "fair_leash_url, or else the broker's URL")
    return client.register_script(script_text("celery_fair.worker.dispatch", "take.lua"))


class Gates:
    """One for each queue that was ever consumed.

    Arguments:
        settings: of the app.
        member: this worker's name among those that share a leash.
        kept: returns what of a queue was set live, and is kept.
    """

    def __init__(
        self,
        settings: Settings,
        member: str,
        kept: Callable[[str], KeptQueue] = lambda _: KeptQueue(),
    ) -> None:
        self._kept = kept
        self._settings = settings
        self._member = member
        self._gates: dict[str, Gate[QueueOptions]] = {}
        self._told: dict[str, KeptQueue] = {}
        self._set_live: set[str] = set()

    def of(self, queue: str) -> Gate[QueueOptions]:
        """Return the queue's gate, made as the settings say."""
        if queue not in self._gates:
            kept = self._told[queue] = self._kept(queue)
            options = replace(self._settings.queue(queue), **kept.options)
            self._gates[queue] = Gate(options, self._leash(queue, options))
            self._gates[queue].pause(kept.paused)
        return self._gates[queue]

    def set_live(self, queue: str) -> None:
        """What is kept of a queue may have changed with what was just set: that is no news."""
        self._set_live.add(queue)

    def news(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield options of queues of which others are kept by now; pause and resume queues."""
        for queue, gate in list(self._gates.items()):
            before, kept = self._told[queue], self._kept(queue)
            self._told[queue] = kept
            if queue in self._set_live:
                self._set_live.remove(queue)
            elif kept != before:
                if kept.paused != before.paused:
                    gate.pause(kept.paused)
                known, options = before.options, kept.options
                yield queue, {n: v for n, v in options.items() if n not in known or known[n] != v}

    def options(self, queue: str) -> QueueOptions:
        """Return the queue's options, as they were set last."""
        gate = self._gates.get(queue)
        return self._settings.queue(queue) if gate is None else gate.options

    def change(self, queue: str, options: QueueOptions) -> None:
        """Give a queue other options, from now on and on every later connection."""
        gate = self.of(queue)
        before, leash = gate.options, gate.leash
        if options.rate is None or leash is None:
            leash = self._leash(queue, options)
        elif (options.rate, options.burst) != (before.rate, before.burst):
            leash.change(options.rate, options.burst, monotonic())
        gate.change(options, leash)

    def _leash(self, queue: str, options: QueueOptions) -> Leash | None:
        if options.rate is None:
            return None
        if options.scope == "worker":
            return LocalLeash(options.rate, options.burst, monotonic())
        assert self._settings.leash_url is not None
        return ClusterLeash(
            self._settings.leash_url,
            queue,
            options.rate,
            options.burst,
            self._member,
            self._settings.leash_prefix,
        )
