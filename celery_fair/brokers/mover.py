"""Moving a message that is held here to where it belongs, so that it is neither lost nor left.

On an AMQP broker a copy is published on a connection of its own, confirmed, and then the message is
acknowledged: a worker that is killed in between leaves both, as does a broker that closes the
message's channel just then. The connection is another because a broker that is out of memory or
disk stops reading from one that publishes, acknowledgements included. On Redis one script does
both. The other virtual transports confirm nothing; there the copy is as safe as any message.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from threading import RLock
from typing import Any
from uuid import uuid4

from kombu.utils.json import dumps

from celery_fair.brokers.payload import is_redelivered
from celery_fair.brokers.redis import Commands, script_text
from celery_fair.brokers.redis_acks import book_settled
from celery_fair.dead_letters.death import (
    dead_letter_queue,
    properties_of,
    with_headers,
)

logger = logging.getLogger(__name__)


class NotTakenError(Exception):
    """The broker has not taken a message, or has not said so; that is all that has failed.

    If it may have taken it, the message counts as redelivered from then on: a copy may be there.
    """


class StaysError(Exception):
    """A message is where it is, and not moved: a copy may be there already, or cannot be made."""


_AT_ONCE = 100
"""Messages that are given back on Redis in one round trip."""


class Mover(ABC):
    """For one connection of a worker's.

    Arguments:
        dead_letters: the queue, and exchange, of the app's dead letters.
        connection: the worker's.
        flush: sends acknowledgements that are kept to be sent together.
    """

    in_place = False
    """Whether what is given back stands where it stood."""

    def __init__(
        self, dead_letters: str, connection: Any, flush: Callable[[], object] = lambda: None
    ) -> None:
        self._dead_letters = dead_letters
        self._consuming = connection
        self._flush = flush
        self._lock = RLock()  # a task in a greenlet of its own may have its message rejected
        self._moving = False

    def dead_letter(self, message: Any, headers: Mapping[str, Any]) -> bool:
        """Move a message to the dead letters, with more headers; False if it is held here no more.

        Raises:
            Exception: whatever the transport does; the message is where it was.
        """
        with self._alone():
            return self._move(message, headers, self._dead_letters)

    def give_back(self, message: Any, headers: Mapping[str, Any]) -> None:
        """Return a message to its queue, with more headers, as one that nobody has been given."""
        with self._alone():
            self._move(message, headers, "")

    def move(self, message: Any, queue: str) -> None:
        """Move a message to another queue, which is there; that it was delivered before, it says.

        Raises:
            NotTakenError: the broker has not taken it; the message is where it was.
            StaysError: it could not be moved before, and is not to be tried again.
        """
        raise TypeError(f"{type(self).__name__} moves messages to their own queues alone")

    def last(self) -> None:
        """The worker stops: what cannot be given back now is not given back at all."""

    def give_back_all(self, messages: Sequence[Any]) -> None:
        """Do so with several of one queue, in their order.

        Raises:
            Exception: whatever the transport does; those that come after are not given back.
        """
        for message in messages:
            self.give_back(message, {})

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One move after the other; none within another, as a signal's handler would have it."""
        with self._lock:
            if self._moving:
                raise ConnectionError("a message is being moved, which this has interrupted")
            self._moving = True
            try:
                yield
            finally:
                self._moving = False

    @abstractmethod
    def _move(self, message: Any, headers: Mapping[str, Any], exchange: str) -> bool:
        """Publish a copy of a message, under its queue's name, and then acknowledge it."""

    def close(self) -> None:
        """Leave nothing open."""


class VirtualMover(Mover):
    """One of kombu's emulated brokers: on the message's own channel.

    Where it has no fanout, what is published to such an exchange is lost without a word.
    """

    def _move(self, message: Any, headers: Mapping[str, Any], exchange: str) -> bool:
        channel = message.channel
        dead_letter_queue(self._dead_letters)(channel).declare()
        headers = headers if exchange else {**history(message), **headers}
        made = properties_of(message, headers, dead=bool(exchange))
        copy = channel.prepare_message(message.body, **made)
        if exchange and not channel.supports_fanout:
            channel.basic_publish(copy, "", exchange)  # the queue has the exchange's name
        else:
            channel.basic_publish(copy, exchange, queue_of(message))
        message.ack()
        return True


class RedisMover(Mover):
    """By a script that takes a message from those held and puts it in a list, in one step."""

    in_place = True  # kombu's way to requeue puts it behind all others
    _declared = False

    def give_back_all(self, messages: Sequence[Any]) -> None:
        for first in range(0, len(messages), _AT_ONCE):
            some = messages[first : first + _AT_ONCE]
            with self._alone():
                send = Commands(some[0].channel)
                send.all([self._command(send, message, {}, "") for message in some])
                for message in some:
                    book_settled(message)

    def _move(self, message: Any, headers: Mapping[str, Any], exchange: str) -> bool:
        send = Commands(message.channel)
        moved = send(*self._command(send, message, headers, exchange))
        book_settled(message)
        return bool(moved)

    def _command(
        self, send: Commands, message: Any, headers: Mapping[str, Any], exchange: str
    ) -> tuple[Any, ...]:
        queue = queue_of(message)
        if exchange:
            self.declare(message.channel)
            to, push = send.lists(exchange)[0], "LPUSH"
            payload = dead_payload(message._raw, headers, exchange, queue)
        else:
            changed = with_headers(message._raw.get("headers"), headers)
            payload = {**message._raw, "headers": changed}
            to, push = send.list_of(queue, message._raw), "RPUSH"
            if getattr(message, "turn", None) is not None:  # to be sorted anew
                payload["properties"] = {**payload["properties"], "ahead": True}
        tag = message.delivery_tag
        return "EVAL", self._script, 3, *send.unacked, to, tag, dumps(payload), push

    def dead_letter_raw(self, channel: Any, raw: bytes, headers: Mapping[str, Any]) -> None:
        """Put what is no message at all among the dead letters, as a message's body."""
        self.declare(channel)
        send = Commands(channel)
        payload = raw_payload(channel, raw, headers, self._dead_letters)
        send.at_once([("LPUSH", send.lists(self._dead_letters)[0], dumps(payload))])

    def declare(self, channel: Any) -> None:
        """Declare the queue of dead letters, once."""
        if not self._declared:
            dead_letter_queue(self._dead_letters)(channel).declare()
            self._declared = True

    @cached_property
    def _script(self) -> str:
        return script_text("celery_fair.brokers", "move.lua")


def history(message: Any) -> dict[str, Any]:
    """Return headers which say that a message was handed out before: a copy does not show it."""
    return {"redelivered": True} if is_redelivered(message) else {}


def dead_payload(
    raw: Mapping[str, Any], headers: Mapping[str, Any], exchange: str, queue: str
) -> dict[str, Any]:
    """Return a message as kombu stores it on Redis as a dead letter, with more headers.

    Arguments:
        exchange: of the dead letters.
        queue: where it was.
    """
    properties = {
        **raw["properties"],
        "delivery_info": {"exchange": exchange, "routing_key": queue},
        "delivery_tag": str(uuid4()),
    }
    properties.pop("ahead", None)
    changed = with_headers(raw.get("headers"), headers)
    return {**raw, "headers": changed, "properties": properties}


def raw_payload(channel: Any, raw: bytes, headers: Mapping[str, Any], exchange: str) -> Any:
    """Return what is no message at all as the body of a dead letter, as kombu stores one on Redis.

    Arguments:
        exchange: of the dead letters.
    """
    body, encoding = channel.encode_body(raw, channel.body_encoding)
    return channel.prepare_message(
        body,
        content_type="application/octet-stream",
        content_encoding="binary",
        headers=dict(headers),
        properties={
            "body_encoding": encoding,
            "delivery_info": {"exchange": exchange, "routing_key": ""},
            "delivery_tag": str(uuid4()),
        },
    )


def queue_of(message: Any) -> str:
    """Return the name of a message's queue; without a feed of ours, its routing key."""
    feed = getattr(message, "feed", None)
    return str(feed.name if feed is not None else message.delivery_info.get("routing_key") or "")
