"""Redis: several messages of several queues in one round trip, and a wake-up when there are none.

Kombu takes one message per queue and turn of the event loop, and records it as unacknowledged in a
further step. Here one script does both for all queues with room, and answers how many are left, so
an empty buffer with nothing left is proof that the queue is idle, and no wait is ever needed.

While something waits here and slots are free, the dispatcher is running, and fetches as it goes:
when a buffer runs empty, and before a choice if the last look is some milliseconds ago, or what is
urgent would wait until a window of something else is used up. Of many queues that were empty it is
asked first whether all of them still are, in one word. While nothing can be started, the worker is
told of the next message in any of them (see `redis_wakeup`), and need not look before it chooses.

One that cannot be woken, as its server or its rights do not allow it or it has no event loop
(gevent, eventlet), looks again after a while, and with many queues so rarely that looking takes a
hundredth of its time. Without an event loop it restores what others have held for too long as it
looks: kombu would do that every twenty seconds there, ten messages at a time.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from itertools import count
from threading import Semaphore
from time import monotonic, thread_time, time
from typing import Any
from uuid import uuid4

from kombu.transport import virtual
from kombu.utils.json import dumps, loads

from celery_fair.brokers.redis import Commands, Script, release_idle, script_text
from celery_fair.brokers.redis_acks import Acks, acknowledge_held
from celery_fair.worker import patches
from celery_fair.worker.queues.delivery import patient_class
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.pulled import Pulled
from celery_fair.worker.queues.redis_wakeup import wake_up_for
from celery_fair.worker.queues.source import Source

logger = logging.getLogger(__name__)

_LOOK_AGAIN = 0.02
"""Seconds between two looks at queues that were empty, while others have work."""

_TOLD = 1.0
"""The same, in seconds, of a worker that is told when something comes."""

_FEW = 16
"""Queues of which it is not asked first whether they are empty still."""

_OTHERS = 3
"""Connections of a channel's for what is not settled: to fetch, to restore, to dead-letter."""

_REST = 99
"""How many times longer than a look at more of them takes of a processor an idle worker rests."""

_Taken = list[tuple[str, Any]]  # tags, and messages' bytes: in a list if they are not recorded


def fetching() -> str:
    """Return the script that takes messages."""
    taking = script_text("celery_fair.brokers.keyed", "take.lua")
    return taking + script_text("celery_fair.worker.queues", "fetch.lua")


class RedisSource(Source):
    """What all Redis queues of a worker share: the channel, the script, the wake-up.

    Arguments:
        connection: the worker's kombu connection.
        hub: the event loop, if there is one.
        soon: asks for the dispatcher to run soon.
        at: asks for it at a time.
        interval: seconds between two looks at the most, where no message wakes the worker.
        by_key: makes a feed that is shared by key.

    Attributes:
        send: sends commands to the server.
    """

    asks = False

    def __init__(
        self,
        connection: Any,
        hub: Any,
        soon: Callable[[], object],
        at: Callable[[float], object],
        interval: float = 0.05,
        by_key: Callable[..., Feed] | None = None,
    ) -> None:
        self.channel = channel = connection.channel()
        self.send = Commands(channel)
        self._script = Script(self.send, fetching())
        self._soon = soon
        self._at = at
        self._interval = interval
        self._by_key = by_key
        self._wait = 0.0
        self._took = 0.0  # by the last look, of a processor
        self._feeds: dict[str, RedisFeed] = {}
        self._empty: list[RedisFeed] = []
        self._question: list[bytes] = []  # whether these are empty still
        self._looked = 0.0
        self._told = False  # it would be told of whatever has come since the last look
        self._tags, self._takings = str(uuid4()), count(1)
        every = getattr(channel, "unacked_restore_interval", 10)  # kombu before 5.6
        self._restore_every, self._restored = every, monotonic()
        self._restores = not hub  # as it looks
        self._timers: list[Any] = []
        self._wake_up = wake_up_for(channel, hub, self._changed, interval) if hub else None
        self._acks = Acks(self.send, channel.qos, soon)
        if hub:
            self._timers.append(hub.call_repeatedly(every, self._restore_overdue))
            patches.acknowledge_by(channel, self._acks.ack)
        else:
            turns = Semaphore(max(1, channel.max_connections - _OTHERS))
            patches.adopt(channel, patient_class(channel.Message, turns))

    def feed(self, **options: Any) -> "RedisFeed":
        return RedisFeed(source=self, **options)

    def pulled(self, **options: Any) -> Feed:
        return PulledRedisFeed(source=self, **options)

    def keyed(self, **options: Any) -> Feed:
        del options["sorter"]  # the server's scripts sort
        assert self._by_key is not None
        return self._by_key(source=self, **options)

    def attach(self, feed: "RedisFeed", fetches: bool) -> None:
        """Fetch for this feed from now on, or no more."""
        self._told = False
        if fetches:
            self._feeds[feed.name] = feed
        else:
            self._feeds.pop(feed.name, None)

    def close(self) -> None:
        """Stop. Closing the connection gives back what is unacknowledged."""
        for timer in self._timers:
            timer.cancel()
        if self._wake_up is not None:
            self._wake_up.close()
        self._acks.close()
        release_idle(self.channel)

    def look(self, now: float) -> None:
        """Fetch before a choice, unless that was done just now."""
        if now - self._looked > (_TOLD if self._told else _LOOK_AGAIN):
            self.fetch()

    def rest(self, now: float) -> None:
        # The next choice need not look, then: a process would wait for the answer.
        if now - self._looked > (_TOLD if self._told else _LOOK_AGAIN) / 2:
            self.fetch()
        if self._wake_up is not None and not self._told:
            empty = [feed for feed in self._feeds.values() if not feed.left]
            self._wake_up.listen([key for feed in empty for key in feed.lists])
            self._told = not any(feed.is_unread for feed in self._feeds.values())

    def seek(self) -> None:
        """Nothing can be started, though slots are free: look once more, then wait."""
        self.fetch()
        empty = [each for each in self._feeds.values() if not each.buffer and each.free > 0]
        if self._wake_up is not None:
            self._wake_up.listen([key for feed in empty for key in feed.lists])
        elif empty:
            self._wait = min(max(2 * self._wait, _LOOK_AGAIN), self._interval)
            rest = _REST * self._took if len(self._feeds) > _FEW else 0.0
            self._at(monotonic() + max(self._wait, rest))

    def fetch(self) -> None:
        """Fill the feeds that have room and may have messages, in one round trip."""
        before = thread_time()
        now = self._looked = monotonic()
        self._told = False
        if self._restores and now - self._restored >= self._restore_every:
            self._restored = now
            self._restore_overdue()
        feeds = [feed for feed in self._feeds.values() if feed.free > 0 and feed.worth_a_look(now)]
        if not feeds:
            return
        self._before_asking()
        self._acks.answered()
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
    ) -> Iterator[tuple["RedisFeed", int, _Taken]]:
        """Take messages: for each feed, how many are left, and what has come, with its tag."""
        keys = self.send.unacked + [key for feed in feeds for key in feed.lists]
        tags = self.new_tag()
        wanted = [most or feed.free for feed in feeds]
        args = [time(), len(self.channel.priority_steps), tags, *wanted]
        answer = self._script(keys, args + [feed.name for feed in feeds])
        number = 0
        for feed, (left, *raws) in zip(feeds, answer, strict=True):
            yield feed, int(left), [(f"{tags}{n}", raw) for n, raw in enumerate(raws, number + 1)]
            number += len(raws)

    def new_tag(self) -> str:
        """Return what no delivery's tag begins with yet."""
        return f"{self._tags}.{next(self._takings)}."

    def acknowledge(self, message: Any) -> None:
        acknowledge_held(self.send, message)

    def flush(self, more: bool = False) -> None:
        self._acks.flush()

    def last(self) -> None:
        self._acks.write_through()

    def _changed(self, quiet: Collection[str]) -> None:
        """What has woken the worker: all but these lists may have something."""
        self._told = False
        for feed in self._feeds.values():
            if not feed.left and any(key not in quiet for key in feed.lists):
                feed.left = 1
        self._soon()

    def _restore_overdue(self) -> None:
        self._acks.answered()  # of a worker that looks for nothing meanwhile
        try:
            self.channel.qos.restore_visible(num=self.channel.unacked_restore_limit, interval=1)
        except self.channel.ResponseError as exc:  # it is out of memory, or this user may not
            logger.warning(
                "Redis refuses to give back what has been held for longer than the visibility"
                " timeout: %s; trying again in %g s",
                exc,
                self._restore_every,
            )


class RedisFeed(Feed):
    """A queue on Redis; all share one source.

    Attributes:
        lists: the keys of its lists, the most urgent first.
        left: how many messages were at the broker when it was seen last.
    """

    has_own_channel = False  # the source has one channel for all

    def __init__(self, *, source: RedisSource, **options: Any) -> None:
        super().__init__(channel=source.channel, **options)
        self._source = source
        self.lists = source.send.lists(self.name)
        self.left = 1
        self._looked = 0.0

    @property
    def free(self) -> int:
        """How many more messages may be taken."""
        return self.room.free(len(self.buffer))

    @property
    def is_unread(self) -> bool:
        """Whether it may have a message, of which nothing is here."""
        return self.left > 0 and not self.buffer and self.free > 0

    def open(self) -> None:
        self._source.attach(self, True)
        self.reports.arrived(self)

    def cancel(self) -> None:
        self._source.attach(self, False)

    def refill(self) -> None:
        self._source.fetch()

    def worth_a_look(self, now: float) -> bool:
        """Whether the queue may have messages: it had some, or was not looked at for a while."""
        return self.left > 0 or now - self._looked > _LOOK_AGAIN

    def fetched(self, taken: _Taken, left: int, now: float) -> None:
        """Take in what the script took, with its tags: recorded already, if it could read it."""
        self.left, self._looked = left, now
        for tag, raw in taken:
            # What Redis's JSON does not read, such as half a surrogate pair, Python's may.
            recorded = isinstance(raw, bytes)
            self._take_in(raw if recorded else raw[0], tag, recorded)
        if taken:
            self.reports.arrived(self)

    def hand_back(self) -> None:
        """Return what is buffered to the head of the queue, in its order."""
        self.buffer.reverse()
        try:
            super().hand_back()
        finally:
            self.buffer.reverse()

    def close(self) -> None:
        self.buffer.clear()

    def _take_in(self, raw: bytes, tag: str, recorded: bool = True) -> Any:
        """Return the message, None if it is garbage."""
        qos = self.channel.qos
        try:
            message = self._message(loads(raw), channel=self.channel)
            message.retag(tag)
            if not isinstance(message.delivery_info, dict):
                raise TypeError(f"delivery info is {message.delivery_info!r}")  # noqa: TRY301
            if not recorded:
                held, index = self._source.send.unacked
                text = dumps([message._raw, "", self.name])
                self._source.send.at_once([("ZADD", index, time(), tag), ("HSET", held, tag, text)])
            virtual.QoS.append(qos, message, tag)
        except Exception as exc:  # anything can be in a list; the worker must live
            if _is_lost_connection(exc):
                raise
            self.dispositions.garbage(self, raw, exc)
            qos.ack(tag)
            return None
        self.window.delivered(0.0)
        self._receive(message)
        return message

    def _apply_window(self) -> None:
        self.window.resize(self.room.prefetch)


def _is_lost_connection(exc: Exception) -> bool:
    """Kombu's own list will not do: it has KeyError, which a malformed message raises."""
    from redis.exceptions import RedisError

    return isinstance(exc, OSError | RedisError)


class PulledRedisFeed(Pulled, RedisFeed):
    """Asks by the script that takes messages, for one at a time."""

    def _get(self) -> int:
        return self._source.take(self)
