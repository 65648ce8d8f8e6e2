"""Redis: several messages of several queues in one round trip, and a bell for when there are none.

Kombu takes one message per queue and turn of the event loop, and records it as unacknowledged in a
further step. Here one script does both for all queues with room, and answers how many are left, so
an empty buffer with nothing left is proof that the queue is idle, and no wait is ever needed.

While something waits here and slots are free, the dispatcher is running, and fetches as it goes:
when a buffer runs empty, and before a choice if the last look is some milliseconds ago, or what is
urgent would wait until a window of something else is used up. Of many queues that were empty it is
asked first whether all of them still are, in one word. When nothing can be started, a
``BRPOP`` on a connection of its own, watched by the event loop, waits for the next message of any
queue whose buffer is empty.

The server takes that message off its list before anybody has it: if the connection or the worker is
lost just then, so is the message, as with kombu. Where tasks are non-repeatable, the worker does
not wait for a bell; it looks again after a while, and with many queues so rarely that looking takes
a hundredth of its time. Nor does a worker without an event loop (gevent, eventlet), whatever its
tasks. It restores what others have held for too long as it looks: kombu would do that every twenty
seconds there, ten messages at a time. One whose user has no right to ``CLIENT UNBLOCK`` looks
again, too: while it waits for some queues it could not begin to wait for one more.
"""

import logging
from collections.abc import Callable, Iterator
from importlib.resources import files
from itertools import count
from threading import Semaphore
from time import monotonic, thread_time, time
from typing import Any
from uuid import uuid4

from kombu.transport import virtual
from kombu.utils.json import loads

from celery_fair.brokers.redis import (
    Commands,
    Script,
    acknowledge_held,
    connection_of,
    release_idle,
)
from celery_fair.worker import host
from celery_fair.worker.queues.delivery import delivery_class, patient_class
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.pulled import Pulled
from celery_fair.worker.queues.source import Source

__all__ = ["PulledRedisFeed", "RedisFeed", "RedisSource", "fetching"]

logger = logging.getLogger(__name__)

_BELL_TIMEOUT = 5
"""Seconds after which the server answers a BRPOP even if there is nothing."""

_OVERDUE = 20
"""Seconds beyond that after which a silent server counts as gone."""

_LOOK_AGAIN = 0.02
"""Seconds between two looks at queues that were empty, while others have work."""

_FEW = 16
"""Queues of which it is not asked first whether they are empty still."""

_OTHERS = 3
"""Connections of a channel's for what is not settled: to fetch, to restore, to bury."""

_REST = 99
"""How many times longer than a look at more of them takes of a processor an idle worker rests."""


class RedisSource(Source):
    """What all Redis queues of a worker share: the channel, the script, the bell.

    Arguments:
        connection: the worker's kombu connection.
        hub: the event loop, if there is one.
        soon: asks for the dispatcher to run soon.
        at: asks for it at a time.
        interval: seconds between two looks at the most, where no bell rings.
        rings: whether a message may wake the worker; needs a loop.

    Attributes:
        send: sends commands to the server.
    """

    def __init__(
        self,
        connection: Any,
        hub: Any,
        soon: Callable[[], object],
        at: Callable[[float], object],
        interval: float = 0.05,
        rings: bool = False,
    ) -> None:
        self.channel = connection.channel()
        self.send = Commands(self.channel)
        self._script = Script(self.send, fetching())
        self._hub = hub
        self._soon = soon
        self._at = at
        self._interval = interval
        self._rings = rings and self._may_ring(connection.userid or "default")
        self._wait = 0.0
        self._took = 0.0  # by the last look, of a processor
        self._feeds: dict[str, RedisFeed] = {}
        self._lists: dict[str, list[str]] = {}
        self._empty: list[RedisFeed] = []
        self._question: list[bytes] = []  # whether these are empty still
        self._bell: Any = None
        self._listening: set[str] = set()
        self._rung_at = 0.0
        self._bell_id: int | None = None
        self._looked = 0.0
        self._tags = str(uuid4())
        self._takings = count(1)
        every = getattr(self.channel, "unacked_restore_interval", 10)  # kombu before 5.6
        self._restore_every, self._restored = every, monotonic()
        self._timers = []
        if hub:
            self._timers.append(hub.call_repeatedly(every, self._restore_overdue))
            self._timers.append(hub.call_repeatedly(_OVERDUE, self._check_bell))
        else:
            turns = Semaphore(max(1, self.channel.max_connections - _OTHERS))
            host.adopt(self.channel, patient_class(self.channel.Message, turns))

    def feed(self, **options: Any) -> "RedisFeed":
        """Make a feed; `options` are those of `Feed`, less the channel."""
        return RedisFeed(source=self, **options)

    def pulled(self, **options: Any) -> Feed:
        """Make a feed that asks for each message; `options` are those of `Pulled` besides."""
        return PulledRedisFeed(source=self, **options)

    def keyed(self, **options: Any) -> Feed:
        del options["sorter"]  # the server's scripts sort
        from celery_fair.worker.queues.keyed.redis import KeyedRedisFeed

        return KeyedRedisFeed(source=self, **options)

    def attach(self, feed: "RedisFeed") -> None:
        """Fetch for this feed from now on."""
        self._feeds[feed.name] = feed

    def detach(self, feed: "RedisFeed") -> None:
        """Fetch for it no more."""
        self._feeds.pop(feed.name, None)

    def close(self) -> None:
        """Stop listening. Closing the connection gives back what is unacknowledged."""
        for timer in self._timers:
            timer.cancel()
        self._silence()
        release_idle(self.channel)

    def look(self, now: float) -> None:
        """Fetch before a choice, unless that was done just now."""
        if now - self._looked > _LOOK_AGAIN:
            self.fetch()

    def last(self) -> None:
        """Listen no more: what is given back must not ring a bell that nobody hears."""
        if self._listening:
            self._unblock()
            answer = self._bell.read_response()
            if answer:
                self.send("RPUSH", *answer)
        self._silence()

    def seek(self) -> None:
        """Nothing can be started, though slots are free: look once more, then wait."""
        self.fetch()
        if self._rings:
            self.listen()
        elif any(not feed.buffer and feed.room > 0 for feed in self._feeds.values()):
            self._wait = min(max(2 * self._wait, _LOOK_AGAIN), self._interval)
            rest = _REST * self._took if len(self._feeds) > _FEW else 0.0
            self._at(monotonic() + max(self._wait, rest))

    def fetch(self) -> None:
        """Fill the feeds that have room and may have messages, in one round trip.

        Not those that would ring the bell: they are empty, or what it brings comes before the rest.
        """
        if self._listening:
            self._hear()
        before = thread_time()
        now = self._looked = monotonic()
        if not self._timers and now - self._restored >= self._restore_every:
            self._restored = now
            self._restore_overdue()
        feeds = [
            feed
            for feed in self._feeds.values()
            if feed.room > 0 and feed.name not in self._listening and feed.worth_a_look(now)
        ]
        if not feeds:
            return
        some = self._without_empty(feeds, now) if len(feeds) > _FEW else feeds
        for feed, left, messages in self._taken(some) if some else ():
            feed.fetched(messages, left, now)
            if messages:
                self._wait = 0.0
        self._took = thread_time() - before

    def _without_empty(self, feeds: list["RedisFeed"], now: float) -> list["RedisFeed"]:
        """Leave those out that were empty, if none of them has anything now."""
        empty = [feed for feed in feeds if not feed.left]
        if empty != self._empty:
            keys = [key for feed in empty for key in feed.lists]
            self._empty, self._question = empty, self.send.packed("EXISTS", *keys)
        if not empty or self.send.send_packed(self._question):
            return feeds
        for feed in empty:
            feed.fetched([], 0, now)
        return [feed for feed in feeds if feed.left]

    def take(self, feed: "RedisFeed") -> int:
        """Take one message of a feed, if there is one; return how many are left."""
        ((_, left, messages),) = self._taken([feed], 1)
        feed.fetched(messages, left, monotonic())
        return left

    def _taken(
        self, feeds: list["RedisFeed"], most: int | None = None
    ) -> Iterator[tuple["RedisFeed", int, list[tuple[str, bytes | list[bytes]]]]]:
        """Take messages: for each feed, how many are left, and what has come, with its tag."""
        keys = self.send.unacked
        for feed in feeds:
            keys += feed.lists
        tags = self.new_tag()
        wanted = [most or feed.room for feed in feeds]
        answer = self._script(keys, [time(), len(self.channel.priority_steps), tags, *wanted])
        number = 0
        for feed, (left, *raws) in zip(feeds, answer, strict=True):
            yield feed, int(left), [(f"{tags}{n}", raw) for n, raw in enumerate(raws, number + 1)]
            number += len(raws)

    def new_tag(self) -> str:
        """Return what no delivery's tag begins with yet."""
        return f"{self._tags}.{next(self._takings)}."

    def lists(self, queue: str) -> list[str]:
        """Return the keys of a queue's lists, the most urgent first."""
        if queue not in self._lists:
            self._lists[queue] = self.send.lists(queue)
        return self._lists[queue]

    def acknowledge(self, message: Any) -> None:
        acknowledge_held(self.send, message)

    def listen(self) -> None:
        """Make sure that a message for any empty feed rings the bell."""
        empty = {feed.name for feed in self._feeds.values() if not feed.buffer and feed.room > 0}
        if not empty or empty <= self._listening:
            return
        if self._listening:
            self._unblock()  # the answer to it, empty or not, makes the dispatcher run
        else:
            self._ring_for(empty)

    def _ring_for(self, names: set[str]) -> None:
        if self._bell is None:
            self._open_bell()
        keys = [key for name in sorted(names) for key in self._feeds[name].lists]
        self._listening = names
        self._rung_at = monotonic()
        self._bell.send_command("BRPOP", *keys, _BELL_TIMEOUT)

    def _may_ring(self, user: str) -> bool:
        """Whether the server lets a wait be ended; if not, say so."""
        asking = [("CLIENT", "ID"), ("CLIENT", "UNBLOCK", 0)]
        lacks = next(filter(None, self.send.refused(asking)), None)
        if lacks is not None:
            logger.warning(
                "Redis user %r may not end its own wait for messages (%s): while it is idle, this"
                " worker looks at its queues every %g ms instead. What helps: redis-cli ACL SETUSER"
                " %s '+client|id' '+client|unblock'",
                user,
                lacks,
                1000 * self._interval,
                user,
            )
        return lacks is None

    def _open_bell(self) -> None:
        self._bell = connection_of(self.channel.client.connection_pool)
        self._bell.send_command("CLIENT", "ID")
        self._bell_id = self._bell.read_response()
        self._hub.add_reader(self._bell._sock, self._on_bell)

    def _on_bell(self) -> None:
        self._hear()
        self._soon()  # it listens again if there is a slot for what may come

    def _hear(self) -> None:
        """Take in the bell's answer, if it is there."""
        if self._bell._sock is None or not self._bell.can_read(timeout=0):
            return
        answer = self._bell.read_response()
        names, self._listening = self._listening, set()
        if answer:
            key, raw = answer
            name = next(n for n in names if key.decode() in self.lists(n))
            feed = self._feeds.get(name)
            if feed is None:  # cancelled while the answer was on its way
                self.send("RPUSH", key, raw)
            else:
                feed.rung(raw)

    def _unblock(self) -> None:
        self.send("CLIENT", "UNBLOCK", self._bell_id)

    def _silence(self) -> None:
        bell, self._bell = self._bell, None
        self._listening = set()
        if bell is not None:
            if bell._sock is not None:
                self._hub.remove_reader(bell._sock)
            bell.disconnect()

    def _check_bell(self) -> None:
        if self._listening and monotonic() - self._rung_at > _BELL_TIMEOUT + _OVERDUE:
            self._bell.disconnect()
            raise ConnectionError("Redis has not answered a BRPOP in time; connecting again")

    def _restore_overdue(self) -> None:
        try:
            self.channel.qos.restore_visible(num=self.channel.unacked_restore_limit, interval=1)
        except self.channel.ResponseError as exc:  # it is out of memory, or this user may not
            logger.warning(
                "Redis refuses to give back what has been held for longer than the visibility"
                " timeout: %s; trying again in %g s",
                exc,
                self._restore_every,
            )


def fetching() -> str:
    """Return the script that takes messages."""
    return files("celery_fair.worker.queues").joinpath("fetch.lua").read_text()


class RedisFeed(Feed):
    """A queue on Redis; all share one source.

    Attributes:
        lists: the keys of its lists, the most urgent first.
        left: how many messages were at the broker when it was seen last.
    """

    def __init__(self, *, source: RedisSource, **options: Any) -> None:
        super().__init__(channel=source.channel, **options)
        self._source = source
        self.lists = source.lists(self.name)
        self.left = 1
        self._looked = 0.0

    def _adopt(self, channel: Any) -> None:  # all feeds of the source share the channel
        self._message = delivery_class(channel.Message, self)

    def open(self) -> None:
        self._source.attach(self)
        self._news.arrived(self)

    def cancel(self) -> None:
        self._source.detach(self)

    def refill(self) -> None:
        self._source.fetch()

    def worth_a_look(self, now: float) -> bool:
        """Whether the queue may have messages: it had some, or was not looked at for a while."""
        return self.left > 0 or now - self._looked > _LOOK_AGAIN

    def fetched(self, taken: list[tuple[str, bytes | list[bytes]]], left: int, now: float) -> None:
        """Take in what the script took, with its tags: recorded already, if it could read it."""
        self.left, self._looked = left, now
        for tag, raw in taken:
            if isinstance(raw, bytes):
                self._take_in(raw, tag, virtual.QoS.append)
            else:  # what Redis's JSON does not read, such as half a surrogate pair, Python's may
                self._take_in(raw[0], tag, type(self.channel.qos).append)
        if taken:
            self._news.arrived(self)

    def rung(self, raw: bytes) -> None:
        """Take in what the bell brought: to be recorded."""
        self.left = 1
        self._take_in(raw, self._source.new_tag(), type(self.channel.qos).append)
        self._news.arrived(self)

    def hand_back(self) -> None:
        """Return what is buffered to the head of the queue, in its order."""
        self.buffer.reverse()
        try:
            super().hand_back()
        finally:
            self.buffer.reverse()

    def close(self) -> None:
        self.buffer.clear()

    def _take_in(self, raw: bytes, tag: str, record: Callable[[Any, Any, str], object]) -> Any:
        """Return the message, None if it is garbage."""
        try:
            message = self._message(loads(raw), channel=self.channel)
            message.retag(tag)
            if not isinstance(message.delivery_info, dict):
                raise TypeError(f"delivery info is {message.delivery_info!r}")  # noqa: TRY301
            record(self.channel.qos, message, tag)
        except Exception as exc:  # anything can be in a list; the worker must live
            if _is_lost_connection(exc):
                raise
            self._drop(raw, tag, exc)
            return None
        self.window.delivered(0.0)
        message.arrive(monotonic(), self._accept)
        self.buffer.append(message)
        return message

    def _drop(self, raw: bytes, tag: str, reason: Exception) -> None:
        self.custody.garbage(self, raw, reason)
        self.channel.qos.ack(tag)

    def _apply_prefetch(self) -> None:
        self.window.resize(self.prefetch)


def _is_lost_connection(exc: Exception) -> bool:
    """Kombu's own list will not do: it has KeyError, which a malformed message raises."""
    from redis.exceptions import RedisError

    return isinstance(exc, OSError | RedisError)


class PulledRedisFeed(Pulled, RedisFeed):
    """Asks by the script that takes messages, for one at a time."""

    def _get(self) -> int:
        return self._source.take(self)
