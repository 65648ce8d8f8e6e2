"""What can be asked of a queue's keys, and done to them, whatever the broker."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from time import time
from typing import Any, NoReturn

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import shown
from celery_fair.brokers.keyed.lists import Backlog, KeyedLists
from celery_fair.operate.errors import InvalidRequestError, OperateError
from celery_fair.operate.text import counted, escaped
from celery_fair.settings import Settings

Stop = Callable[[], bool]
"""Asked whether to end here."""

Tick = Callable[[int], object]
"""Told how many more are done."""


@dataclass
class Listing:
    """Whose messages wait.

    Attributes:
        keys: how many keys have messages waiting.
        unsorted: messages of which it is not known whose they are.
        top: of each key that has most waiting, what is known: a `Backlog`'s fields and its share.
        lanes: how many the queue has, on RabbitMQ.
        front, in_lanes: messages in the queue itself, and in lanes.
        trouble: why the workers could not be asked.
    """

    keys: int
    unsorted: int
    top: list[dict[str, Any]] = field(default_factory=list)
    lanes: int | None = None
    front: int = 0
    in_lanes: int = 0
    trouble: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON shows of it."""
        shown: dict[str, Any] = {"keys": self.keys, "unsorted": self.unsorted}
        if self.lanes is not None:
            waiting = self.front + self.in_lanes
            shown |= {"front": self.front, "lanes": self.lanes, "waiting": waiting}
        return shown | {"top": self.top}


@dataclass(frozen=True)
class Moved:
    """What became of messages that were to be moved.

    Attributes:
        left: how many are still where they were, or there again.
        interrupted: whether that is as it was ended early.
    """

    count: int
    left: int
    interrupted: bool


class Keys(ABC):
    """A queue of ``fair_keys``, connected; `close` it.

    Attributes:
        place: where the keys' messages wait.
    """

    place: str

    def __init__(self, app: Any, settings: Settings, connection: Any, queue: str) -> None:
        self._app = app
        self._settings = settings
        self._connection = connection
        self._queue = queue

    def close(self) -> None:
        """Leave nothing open."""

    @abstractmethod
    def listing(self, top: int) -> Listing:
        """Return whose messages wait.

        Arguments:
            top: keys to tell of, at the most, those with most waiting.

        Raises:
            OperateError: a store of keys does not answer.
        """

    @abstractmethod
    def backlog(self, tenant: str) -> tuple[Backlog, int]:
        """Return what is known of a key, and how many messages wait of which that is not known.

        Raises:
            OperateError: as `listing`.
        """

    @abstractmethod
    def _rules(self) -> AbstractContextManager[KeyedLists]:
        """Give what says what keys may, the broker or the store.

        Raises:
            OperateError: there is neither, or it does not answer.
        """

    @abstractmethod
    def waiting(self) -> Mapping[int, int]:
        """Return how many messages wait in which of the keys' places."""

    @abstractmethod
    def merge(self, waiting: Mapping[int, int], stop: Stop, tick: Tick) -> Moved:
        """Put so many messages back into the queue itself, each key's in their order.

        Arguments:
            waiting: as `waiting` has returned it.

        Raises:
            OperateError: the broker takes no more.
        """

    def waiting_of(self, key: str) -> dict[str, int]:
        """Return how many messages of a tenant wait, by part; or of the part that the key names.

        Raises:
            OperateError: they cannot be told from others.
        """
        self._refuse()

    def drop(
        self, key: str, waiting: Mapping[str, int], for_good: bool, stop: Stop, tick: Tick
    ) -> Moved:
        """Make so many messages dead letters, those that came first at first, or delete them.

        Arguments:
            waiting: as `waiting_of` has returned it.
            for_good: whether they are deleted.

        Raises:
            OperateError: as `waiting_of`.
        """
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise OperateError(
            f"on this broker, {shown(self._connection)}, messages of all keys are in the queue and"
            " its lanes, and those of one cannot be told from the others. `fair keys pause` keeps"
            " them from starting, if there is a fair_key_store"
        )

    @abstractmethod
    def everything(self) -> int:
        """Return how many messages wait, whosever they are."""

    @abstractmethod
    def purge_everything(self) -> Moved:
        """Delete all that waits, but for what a worker sorts just then."""

    @abstractmethod
    def shrink(self, stop: Stop) -> Moved:
        """Remove empty lanes, those with the highest numbers first, until one is not empty.

        Raises:
            InvalidRequestError: this broker has none.
            OperateError: a worker answers that consumes the queue.
        """

    def ruled(self, *tenants: str) -> list[Backlog]:
        """Return what the broker, or the store, knows of tenants; or of those that come next.

        Raises:
            OperateError: there is no store, or it does not answer.
        """
        with self._rules() as lists:
            return lists.look(*tenants)[2]

    def set(self, tenant: str, options: Mapping[str, Any]) -> Backlog:
        """Let a tenant have options, for all workers, at once; return what it had before.

        Raises:
            InvalidRequestError: it would have a burst and no rate, of which that is a part.
            OperateError: as `ruled`.
        """
        with self._rules() as lists:
            [before] = lists.look(tenant)[2]
            refuse_idle_burst(self._queue, before, options)
            lists.set(tenant, options)
        return before

    def reset(self, tenant: str) -> None:
        """Let a tenant have what the settings say.

        Raises:
            OperateError: as `ruled`.
        """
        with self._rules() as lists:
            lists.reset(tenant)

    def pause(self, tenant: str, paused: bool) -> Backlog:
        """Let a tenant start nothing until this is ended; return what it had before.

        Raises:
            OperateError: as `ruled`.
        """
        with self._rules() as lists:
            [before] = lists.look(tenant)[2]
            lists.pause(tenant, paused)
        return before


def refuse_idle_burst(queue: str, found: Backlog, options: Mapping[str, Any]) -> None:
    """Raise if options of a key would have a burst and no rate, of which that is a part.

    Arguments:
        found: what the key has now.

    Raises:
        InvalidRequestError: saying what to do.
    """
    if "burst" in options and options.get("rate", found.limits.rate) is None:
        raise InvalidRequestError(
            f"{shown_key(found.tenant)} has no rate in {queue}, and 'burst' means nothing without:"
            " set both, such as rate=10/s burst=5"
        )


def rows_of(
    found: Sequence[Backlog], top: int, oldest: Callable[[str], float | None] = lambda _: None
) -> list[dict[str, Any]]:
    """Return what is known of those that have most waiting, with their shares.

    Arguments:
        oldest: says when a tenant's oldest message was published, in Unix time.
    """
    weights = sum(each.weight for each in found if each.waiting) or 1.0
    started = sum(each.started for each in found) or 1
    return [
        {
            **each.as_dict(),
            "target": each.weight / weights if each.waiting else 0.0,
            "share": each.started / started,
            "oldest_seconds": _age(oldest(each.tenant)),
        }
        for each in sorted(found, key=lambda each: (-each.waiting, each.tenant))[:top]
    ]


def _age(published: float | None) -> float | None:
    return None if published is None else max(0.0, time() - published)


@contextmanager
def store_asked() -> Iterator[None]:
    """Say it if the store of keys does not answer.

    Raises:
        OperateError: it does not.
    """
    try:
        yield
    except ImproperlyConfigured as exc:
        raise OperateError(str(exc)) from exc
    except Exception as exc:
        from redis.exceptions import RedisError

        if not isinstance(exc, RedisError | OSError):
            raise
        raise OperateError(f"fair_key_store: {exc}") from exc


def shown_key(key: str) -> str:
    """Return a key for a sentence."""
    return escaped(key) or "(no key)"


def why(queue: str, found: Backlog) -> str:
    """Return what a key has waiting in a queue, and why that does not start."""
    who = shown_key(found.tenant)
    if not found.waiting:
        held = f"; {_reason(found)}" if found.reason else ""
        return f"{who} has nothing waiting in {queue}{held}"
    return f"{who} has {counted(found.waiting, 'message')} waiting in {queue}: {_reason(found)}"


def _reason(found: Backlog) -> str:
    limits = found.limits
    if found.reason == "paused":
        return "it is paused; fair keys resume ends that"
    if found.reason == "cap":
        return (
            f"{found.running} of {limits.max_in_flight} tasks run, as many as may (max_in_flight)"
        )
    if found.reason == "leash":
        return f"its leash of {limits.rate:g}/s has no token yet (rate)"
    if found.before is None:
        return "its turn comes by its tag, as each worker has it"
    if found.before:
        return f"{counted(found.before, 'key comes', 'keys come')} before it"
    return "it is next, when a slot is free"
