"""What was set live for queues, and is to hold for workers that start later, too.

It is in Redis: the broker, or else the store of keys. One hash has it all, by queue. What a worker
finds there when it begins to consume a queue goes before its settings.
"""

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Any, NamedTuple

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import broker_of
from celery_fair.brokers.keyed.store import KeyStore
from celery_fair.brokers.redis import Commands, pairs_of
from celery_fair.settings import Settings, parse_live_options

logger = logging.getLogger(__name__)

_KEY = "celery-fair:kept"

_FRESH = 5.0
"""Seconds for which a worker goes by what it has read."""

_PATIENCE = 5.0
"""Seconds for the broker to answer."""

_AGAIN, _SELDOM = 2.0, 60.0
"""Seconds until it is read again: at first, and at the most while it cannot be read."""


class KeptQueue(NamedTuple):
    """What is kept of a queue.

    Attributes:
        options: as in ``fair set``.
        paused: whether nothing of it is to start.
    """

    options: Mapping[str, Any] = {}
    paused: bool = False


class Keeping:
    """Reads and writes what is kept.

    Arguments:
        send: sends commands to the Redis.
    """

    def __init__(self, send: Commands) -> None:
        self._send = send
        self._key = send.key(_KEY)

    def of(self, queue: str) -> KeptQueue:
        """Return what is kept of a queue."""
        return _read(self._send("HGET", self._key, queue))

    def all(self) -> dict[str, KeptQueue]:
        """Return what is kept of any queue, by name."""
        kept = pairs_of(self._send("HGETALL", self._key))
        return {name.decode(): _read(text) for name, text in kept}

    def keep(self, queue: str, options: Mapping[str, Any]) -> KeptQueue:
        """Keep options of a queue, besides those that are kept already; return what was kept."""
        before = self.of(queue)
        self._write(queue, before._replace(options={**before.options, **options}))
        return before

    def pause(self, queue: str, paused: bool) -> KeptQueue:
        """Keep that a queue is paused, or that it is not; return what was kept."""
        before = self.of(queue)
        self._write(queue, before._replace(paused=paused))
        return before

    def forget(self, queue: str) -> KeptQueue:
        """Keep nothing of a queue; return what was kept."""
        before = self.of(queue)
        self._send("HDEL", self._key, queue)
        return before

    def _write(self, queue: str, kept: KeptQueue) -> None:
        if kept == KeptQueue():
            self._send("HDEL", self._key, queue)
        else:
            self._send("HSET", self._key, queue, json.dumps(kept._asdict()))


@contextmanager
def keeping(settings: Settings, connection: Any) -> Iterator[Keeping | None]:
    """Give access to what is kept; None if there is no Redis to keep it.

    Arguments:
        connection: kombu's, to the app's broker.

    Raises:
        celery.exceptions.ImproperlyConfigured: the store's URL cannot be used.
        redis.RedisError: it does not answer.
    """
    if broker_of(connection).keeps_tags:
        yield Keeping(Commands(connection.default_channel))
    elif settings.key_store is None:
        yield None
    else:
        with closing(KeyStore(settings.key_store)) as store:
            yield Keeping(Commands(store))


class Kept:
    """What is kept, as a worker looks it up; nothing, while the Redis does not answer.

    Arguments:
        connect: makes a kombu connection to the broker, without opening it.
        news: called, on another thread, when it has been read later than asked for, or again.
    """

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[], Any],
        news: Callable[[], object] = lambda: None,
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._news = news
        self._known: dict[str, KeptQueue] = {}
        self._read_again_at = 0.0
        self._closed = Event()

    def of(self, queue: str) -> KeptQueue:
        """Return what is kept of a queue, so far as this version knows it."""
        if monotonic() >= self._read_again_at:
            self._read_again_at = monotonic() + _FRESH
            if why := self._read():
                logger.warning(
                    "Cannot read what was set live and kept (fair set --keep); until it can be"
                    " read, this worker goes by its settings: %s",
                    why,
                )
                self._begin_to_try()
        kept = self._known.get(queue, KeptQueue())
        if not kept.options:  # which a command would have to give
            return kept
        try:
            self._settings.changed(queue, kept.options)
            return kept._replace(options=parse_live_options(queue, kept.options))
        except ImproperlyConfigured as exc:
            logger.warning("What was kept of queue %s is left out: %s", queue, exc)
            return kept._replace(options={})

    def look_again(self) -> None:
        """Read what was kept while this worker heard of nothing, as soon as it hears again."""
        if self._read_again_at < math.inf:
            self._begin_to_try()

    def close(self) -> None:
        """Try no more."""
        self._closed.set()

    def _read(self) -> str:
        """Take in what is kept; return why that cannot be done, if it cannot."""
        try:
            plain = self._connect()
            with (
                broker_of(plain).impatient(plain, _PATIENCE) as connection,
                keeping(self._settings, connection) as kept,
            ):
                self._known = {} if kept is None else kept.all()
        except Exception as exc:  # noqa: BLE001 - of whatever client; the worker starts all the same
            return str(exc) or type(exc).__name__
        return ""

    def _begin_to_try(self) -> None:
        self._read_again_at = math.inf  # by a thread
        Thread(target=self._try, name="fair-kept", daemon=True).start()

    def _try(self) -> None:
        wait = _AGAIN
        while not self._closed.wait(wait):
            if not self._read():
                self._read_again_at = monotonic() + _FRESH
                self._news()
                return
            wait = min(2 * wait, _SELDOM)


def _read(text: Any) -> KeptQueue:
    try:
        found = json.loads(text)
        return KeptQueue(dict(found["options"]), bool(found["paused"]))
    except (TypeError, ValueError, KeyError):  # there is none, or somebody has written there
        return KeptQueue()
