"""A queue's lanes: on RabbitMQ, where the messages wait of those keys that publish in floods.

The queue itself is the front: what is published in passing, a key's first messages and one a second
from then on, goes there, and so nothing long stands before anybody. A key that publishes more gets
a lane, a queue of its own, ``jobs.fair.0``, ``jobs.fair.1`` and so on. There are as many lanes as
were ever needed at once: whoever finds none empty adds one. A client cannot ask RabbitMQ for the
queues that there are; so ``jobs.fair`` holds a message for each lane, and how many it holds is how
many lanes there are. They stay: a queue that deletes itself does so with its messages.

There are no more than are allowed. Beyond that keys share lanes; and for those that may start
nothing for now, workers add as many again, to which they move what stands before the others there.

With no right to declare queues, none to publish past the front, or no room for queues, everything
stays in the front: in its order, and nothing is lost.
"""

import logging
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from random import sample
from threading import RLock
from time import monotonic
from typing import Any

from amqp import AccessRefused, ChannelError, NotFound, PreconditionFailed, spec
from amqp.exceptions import MessageNacked
from kombu import Exchange, Queue

logger = logging.getLogger(__name__)

_SAMPLE = 8
"""Lanes that are looked at for an empty one."""

_AT_A_TIME = 256
"""Lanes that are asked about in one go."""

_KEPT = 600.0
"""Seconds for which a key keeps its lane, from its last message in it."""

_UNSEEN = 0.5
"""Seconds within which what was published to a lane need not show there yet."""

_MOST_KEPT = 100_000
"""Keys whose lanes are remembered."""

_REST = 10.0
"""Seconds until it is asked again whether a lane is there still, or one can be made, or at all."""

_PATIENCE = 5.0
"""Seconds for an answer."""

_MARK = (
    b"One for each lane of this queue: celery-fair counts them. Deleted, lanes would be overlooked."
)

_DECLARE = "BsbbbbbF"
"""The arguments of ``queue.declare``: bits, short strings, a table."""

_NOTHING: dict[str, Any] = {}

_OF_THE_QUEUE = {"x-expires", "x-single-active-consumer"}
"""Arguments that a lane has not: it would delete itself with its messages; it is asked, by all."""

_BOUNDS = ("message_ttl", "max_length", "max_length_bytes", "max_priority")
"""Arguments that kombu writes otherwise."""


def register(queue: str) -> str:
    """Return the name of the queue that holds a message for each of a queue's lanes."""
    return f"{queue}.fair"


def lane_name(queue: str, number: int) -> str:
    """Return the name of a queue's lane."""
    return f"{register(queue)}.{number}"


def lane(queue: Any, number: int) -> Queue:
    """Return a lane of a queue, as kombu's, to be published to by its name."""
    bounds = {bound: getattr(queue, bound, None) for bound in _BOUNDS}
    return _like(queue, lane_name(queue.name, number), queue.queue_arguments, **bounds)


def _like(queue: Any, name: str, arguments: Any, **bounds: Any) -> Queue:
    kept = {key: value for key, value in (arguments or {}).items() if key not in _OF_THE_QUEUE}
    mode = getattr(queue.exchange, "delivery_mode", None)
    return Queue(
        name,
        Exchange("", delivery_mode=mode),
        routing_key=name,
        durable=queue.durable,
        no_declare=True,  # that has been done by whoever has found it empty
        queue_arguments=kept or None,
        **bounds,
    )


def depths_by_name(channel: Any, names: Sequence[str]) -> dict[str, int]:
    """Ask in one go how many messages wait in queues; return the answers, to the first not there.

    Then the broker has closed the channel.
    """
    found: dict[str, int] = {}
    with suppress(NotFound):
        for name in names:
            passive = (0, name, True, False, False, False, False, _NOTHING)
            channel.send_method(spec.Queue.Declare, _DECLARE, passive)
        for name in names:
            found[name] = int(channel.wait(spec.Queue.DeclareOk, returns_tuple=True)[1])
    return found


def waiting_in_lanes(channel: Any, queue: str) -> int:
    """Ask how many messages wait in all lanes of a queue. None is made, or changed.

    One that somebody has deleted hides those behind it that are asked about in one go with it.
    """
    connection, total = channel.connection, 0
    with connection.channel() as asking:
        try:
            count = int(asking.queue_declare(register(queue), passive=True).message_count)
        except NotFound:
            return 0
    names = [lane_name(queue, number) for number in range(count)]
    for first in range(0, count, _AT_A_TIME):
        with connection.channel() as asking:
            depths = depths_by_name(asking, names[first : first + _AT_A_TIME])
        if not depths:  # a queue of somebody else's is called so
            break
        total += sum(depths.values())
    return total


def be_patient(connection: Any, seconds: float) -> None:
    """Have a connection of py-amqp's wait for answers so long, in a worker and elsewhere."""
    connection.sock.settimeout(seconds)
    connection.read_timeout = seconds


class NotEmptyError(Exception):
    """A lane that was removed was not empty after all."""


class Lanes:
    """A queue's lanes, on a connection of their own: one that publishes may be blocked by an alarm.

    One thread at a time may use it. Whatever is raised, the connection is closed and the next call
    opens another.

    Arguments:
        connect: makes a kombu connection, without opening it.
        queue: kombu's.
        most: lanes beyond which none is added but for keys that are to wait.
        may_declare: whether to make what is not there.

    Attributes:
        queue: its name.
        most: as above.
        count: how many there were when that was asked last.
        may_declare: whether nobody has said that this user may not.
    """

    def __init__(
        self, connect: Callable[[], Any], queue: Any, most: int, may_declare: bool = True
    ) -> None:
        self._connect = connect
        self._queue = queue
        self.queue: str = queue.name
        self.most = most
        self._kind = (queue.queue_arguments or {}).get("x-queue-type")
        arguments = {"x-queue-type": self._kind} if self._kind else None
        self._register = _like(queue, register(queue.name), arguments)
        self._connection: Any = None
        self._channel: Any = None
        self.may_declare = may_declare
        self._rests_until = 0.0  # where no lane can be made
        self.count = 0

    @property
    def channel(self) -> Any:
        """A channel that is open, on which publishing is confirmed."""
        if self._channel is None:
            self._connection = connection = self._connect()
            with self._intact():
                connection.connect()
                be_patient(connection.connection, _PATIENCE)
                self._channel = connection.channel()
                self._channel.confirm_select()
        return self._channel

    def counted(self) -> int:
        """Ask how many lanes there are."""
        self.count = max(self.count, self._depth(self._register) or 0)
        return self.count

    def recount(self) -> int:
        """Count also lanes that are there and not in the register, if somebody has emptied it."""
        while self._depth_if_there(lane(self._queue, self.counted())) is not None:
            self._mark()
            self.count += 1
        return self.count

    def depths(self, numbers: Sequence[int]) -> dict[int, int]:
        """Ask how many messages wait in lanes; what was deleted is declared again, or left out."""
        found: dict[int, int] = {}
        rest = list(numbers)
        while rest:
            asked = rest[:_AT_A_TIME]
            with self._intact():
                some = depths_by_name(self.channel, [lane_name(self.queue, each) for each in asked])
            found |= zip(asked, some.values(), strict=False)
            rest = rest[len(some) :]
            if len(some) < len(asked):  # the first of them is not there
                self.drop()
                missing = rest.pop(0)
                if (depth := self._depth(lane(self._queue, missing))) is not None:
                    found[missing] = depth
        return found

    def survey(self, numbers: Sequence[int]) -> tuple[int, dict[int, int]]:
        """Ask in one go what `counted`, `front` and `depths` do; return what these last two do."""
        names = [lane_name(self.queue, number) for number in numbers]
        asked = [register(self.queue), self.queue, *names]
        with self._intact():
            found = depths_by_name(self.channel, asked)
        if len(found) < len(asked):  # one was deleted: each is seen to by itself
            self.drop()
            self.counted()
            return self.front(), self.depths(numbers)
        count, front, *depths = found.values()
        self.count = max(self.count, count)
        return front, dict(zip(numbers, depths, strict=True))

    def front(self) -> int:
        """Ask how many messages wait in the queue itself.

        If it was deleted that is for its worker to see, who binds it again, too.
        """
        return self._depth_if_there(self._queue) or 0

    def add(self, beyond: bool = False) -> int | None:
        """Add a lane; return its number, or None if there may be no more.

        One that somebody else has added meanwhile, and nobody uses yet, does as well.

        Arguments:
            beyond: whether it is for a key that is to wait.
        """
        if monotonic() < self._rests_until:
            return None
        for number in range(self.counted(), 2 * self.most if beyond else self.most):
            depth = self._depth(lane(self._queue, number)) if self.may_declare else None
            if depth is not None:
                self._mark()
            if depth is None or self.counted() <= number:  # workers would not know of it
                self._rests_until = monotonic() + _REST
                return None
            if not depth:
                return number
        return None

    def empty(self, taken: Container[int] = ()) -> int | None:
        """Return a lane for a key that needs one: an empty one, or the least full; None for none.

        Of `_SAMPLE` lanes at random, so that those who look at a time find different ones.

        Arguments:
            taken: lanes that are not empty, though it may seem so.
        """
        count = min(self.counted(), self.most)
        looked_at = sample(range(count), min(_SAMPLE, count))
        depths = self.depths(looked_at)
        found = next((n for n in looked_at if depths.get(n) == 0 and n not in taken), None)
        if found is None:
            found = self.add()
        return min(depths, key=depths.__getitem__, default=None) if found is None else found

    def remove_last(self) -> bool:
        """Remove the last lane if it is empty, and its mark; return whether it was.

        Only where no worker and no publisher of the queue runs: a quorum queue cannot be deleted on
        condition that it is empty, and what a worker holds of any lane does not show.

        Raises:
            NotEmptyError: messages came into it in just that moment, and are gone.
        """
        last = lane(self._queue, self.count - 1)
        certain = {} if self._kind == "quorum" else {"if_unused": True, "if_empty": True}
        try:
            if self._depth_if_there(last):
                return False
            with self._intact():
                gone = self.channel.queue_delete(last.name, **certain)
        except PreconditionFailed:  # something has come
            return False
        with self._intact():
            self.channel.basic_get(self._register.name, no_ack=True)
        self.count -= 1
        if gone:
            raise NotEmptyError(f"{gone} messages came into {last.name} while it was removed")
        return True

    def drop(self) -> None:
        """Close the connection without a word."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            connection.collect()

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            connection.release()

    @contextmanager
    def _intact(self) -> Iterator[None]:
        """Drop a connection on which something has failed: a late answer is none to the next."""
        try:
            yield
        except Exception:  # whatever it is; re-raised
            self.drop()
            raise

    def _mark(self) -> None:
        # Then it is known to have failed: a policy bounds the register, say, or its node is down.
        with suppress(ChannelError, MessageNacked), self._intact():
            mark = self.channel.prepare_message(_MARK, properties={"delivery_mode": 2})
            name = self._register.name
            self.channel.basic_publish_confirm(mark, "", name, True, confirm_timeout=_PATIENCE)

    def _depth(self, queue: Any) -> int | None:
        """Ask how many messages wait in a queue, declared if it is not there; None if refused."""
        try:
            with self._intact():
                if self.may_declare:
                    return int(queue(self.channel).queue_declare().message_count)
        except AccessRefused:
            self.may_declare = False
        except ChannelError as exc:  # declared otherwise, or no room, or its node is down
            logger.debug("%s", exc)
        return self._depth_if_there(queue)

    def _depth_if_there(self, queue: Any) -> int | None:
        try:
            with self._intact():
                return int(self.channel.queue_declare(queue.name, passive=True).message_count)
        except NotFound:
            return None


class LaneChooser:
    """Says which of a queue's lanes a key's messages go to; any thread may ask."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._lock = RLock()
        # The lane, until when, and when it is looked into; used last, last
        self._kept: dict[str, tuple[int, float, float]] = {}
        self._rests_until = 0.0

    def lane(self, key: str) -> int | None:
        """Return the number of a key's lane; None if there is none, or no answer."""
        with self._lock:
            now = monotonic()
            number, until, look_at = self._kept.pop(key, (None, 0.0, 0.0))
            if now >= look_at:
                number, look_at = self._chosen(number if now < until else None, now), now + _REST
            if number is not None:
                self._kept[key] = (number, now + _KEPT, look_at)
                if len(self._kept) > _MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
            return number

    def close(self) -> None:
        """Close the connection."""
        with self._lock, suppress(Exception):
            self._lanes.close()

    def _chosen(self, number: int | None, now: float) -> int | None:
        """Return this lane, if it is there still, or another one."""
        if now < self._rests_until:
            return number
        try:
            if number is None or number not in self._lanes.depths([number]):
                number, just = None, now - _UNSEEN + _KEPT
                taken = {each for each, until, _ in self._kept.values() if until > just}
                number = self._lanes.empty(taken)
            if number is not None:
                return number
        except Exception as exc:  # noqa: BLE001 - whatever it is, the message is published
            logger.warning("Cannot ask for a lane, what is published goes to the queue: %r", exc)
        self._rests_until = monotonic() + _REST
        return number
