"""A feed from an AMQP broker, which pushes messages into the window."""

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from struct import Struct
from time import monotonic
from typing import Any, Protocol

from amqp import ChannelError

from celery_fair.core.window import RefillMeter
from celery_fair.worker import host
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.wire.ack_writer import AckWriter
from celery_fair.worker.wire.channels import SharedChannel

__all__ = ["AmqpFeed", "RawDeliveries"]

_TAG = 5  # where the consumer's tag begins in a method's frame; its length is before it
_delivery_tag = Struct(">Q").unpack_from

_numbers = count(1)

_MOST = 65535
"""The largest prefetch count that AMQP can say, but for 0, which is any number."""

_REFILL = 1.0
"""Seconds after which a delivery will not come any more: somebody else gets what is there."""


class RawDeliveries(Protocol):
    """Hands over deliveries as their frames came."""

    def register(self, channel: int, taker: Callable[[bytes, bytes, bytes], bool]) -> None:
        """Hand over those on a channel (method, header, body) from now on."""

    def forget(self, channel: int) -> None:
        """The channel is closed; another may get its number."""

    def message_class(self, base: type) -> Any:
        """Return what makes a message of a delivery that is not decoded yet."""


class AmqpFeed(Feed):
    """A queue of an AMQP broker, subscribed to with ``basic.consume``.

    ``basic.qos`` without *global* holds for consumers that start after it, so the window is set
    before subscribing, and changed by a second subscription that takes over from the first. What
    came by the first is not counted in the second's window, however long it is kept.

    Arguments:
        meter: the worker's, of all its feeds.
        acks: keeps acknowledgements, to send them together.
        frames: if given, hands over deliveries that are not decoded yet.
    """

    def __init__(
        self,
        *args: Any,
        meter: RefillMeter,
        acks: AckWriter,
        frames: RawDeliveries | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._meter = meter
        self._acks = acks
        self._frames = frames
        if frames is not None:
            self._undecoded = frames.message_class(self.channel.Message)
            host.acknowledge_by(self.channel, acks.ack)
        self._tag = ""
        self._tag_bytes = b""
        self._generation = 0
        self._unsettled = 0  # also of what came by former subscriptions
        self._parked_here = 0  # of what came by the present one
        self._asked: float | None = None  # first, whether there is more; nothing has come since
        self._mark = ""
        if isinstance(self.channel, SharedChannel):
            self._mark = f".{next(_numbers)}"  # a former feed of the queue may have subscribed here
            self.channel.when_closed(self._closed)
        else:
            host.tell_of_close(self.channel, self._closed)

    @property
    def owed(self) -> bool:
        # What runs frees its place soon; only what a rate limit holds back may keep all of them.
        return self.window.backlogged and self._limited < self._wanted

    @property
    def ahead(self) -> int | None:
        return self._wanted

    def has_more(self) -> bool:
        """Ask the broker: its answer tells a broker that is slow from a queue that is empty.

        A busy RabbitMQ answers before it takes in our acknowledgements, so that it is asked again,
        for `_REFILL`. If by then nothing has come, somebody else consumes the queue.
        """
        now = monotonic()
        if self._asked is None:
            self._asked = now
        if now - self._asked > _REFILL:
            return False
        return self._depth() > 0 or bool(self.buffer)  # what was on its way is here by now

    def _depth(self) -> int:
        try:
            return int(self.channel.queue_declare(self.name, passive=True).message_count)
        except ChannelError as exc:  # deleted, and `_cancelled` will not be told any more
            self._refused(exc)
            return 0

    def open(self) -> None:
        self._subscribe()

    def reopen(self) -> None:
        """The queue was deleted: declare it again and subscribe. What is buffered still runs."""
        self.queue.declare()
        self._subscribe()

    def cancel(self) -> None:
        if self._settled_down():
            tag, self._tag = self._tag, ""
            self._unsubscribe(tag)

    def _settled_down(self) -> bool:
        """Take in what our acknowledgements let through, before our subscription ends.

        RabbitMQ's quorum queues answer an acknowledgement with the next message; if the consumer is
        cancelled before that is on its way to it, it never is: it stays the connection's, out of
        sight, and counts as redelivered when that ends. So we wait until the window is full or the
        queue is empty, and for `_REFILL` at the most, besides what the broker's answers take.
        Whether the queue is a quorum queue is known to the broker only: a policy may have made it
        one.

        Returns whether there is a subscription; the queue may be deleted while we wait.
        """
        if self._tag:
            self._acks.flush()
        held, patience = self.window.held, _REFILL
        while self._owes_refills and patience > 0 and self._broker_has_more():
            answered = monotonic()
            with suppress(TimeoutError):
                self.channel.connection.drain_events(timeout=self._meter.patience)
            patience -= monotonic() - answered
            if self.window.held > held:
                held, patience = self.window.held, _REFILL
        if self._owes_refills:
            self.window.disappointed()
        return bool(self._tag)

    def _broker_has_more(self) -> bool:
        """Ask; what was on its way has come before the answer, and may have filled the window."""
        return self._depth() > 0 and self._owes_refills

    @property
    def _owes_refills(self) -> bool:
        return bool(self._tag) and self.window.backlogged and self.window.held < self.window.size

    def _subscribe(self) -> None:
        self._generation += 1
        tag = f"fair.{self.name[:200]}{self._mark}.{self._generation}"
        size = min(max(1, self._beside_parked), _MOST)
        # Not by kombu's Queue.consume: it cannot ask for exclusive consumption.
        try:
            self.channel.basic_qos(0, size, False)
            self.channel.basic_consume(
                queue=self.name,
                consumer_tag=tag,
                exclusive=self.gate.options.exclusive and not self._single_active,
                callback=self._deliver,
                on_cancel=self._cancelled,
                arguments=self.queue.consumer_arguments,
            )
        except ChannelError as exc:
            self._refused(exc)
        else:
            self.window.renew(size)
            self._tag, self._parked_here = tag, 0
            if self._frames is not None:
                self._tag_bytes = tag.encode()
                self._frames.register(self.channel.channel_id, self._take_frames)

    def _unsubscribe(self, tag: str) -> None:
        number = self.channel.channel_id
        try:
            self.queue.cancel(tag)
        except ChannelError as exc:  # it was closed already, which nobody had read yet
            self._closed(number, exc)

    def _refused(self, answer: ChannelError) -> None:
        self._tag = ""
        self._recovery.refused(self, answer)

    def _closed(self, number: int, reason: Exception) -> None:
        if self.dead:  # a shared channel has said so
            return
        self._tag = ""
        if self._frames is not None:
            self._frames.forget(number)
        self._recovery.closed(self, reason)

    def asks_if_open(self) -> bool:
        """Ask the broker whether it has closed the channel; with that it has all deliveries back.

        If it has, that is in a frame which nobody has read yet.
        """
        if self.dead:
            return False
        number = self.channel.channel_id
        try:
            self.channel.flow(True)  # which it is already
        except ChannelError as exc:
            self._closed(number, exc)
        return not self.dead

    @property
    def may_be_asked(self) -> bool:  # type: ignore[override]
        """Whether ``basic.get`` would do as well: it keeps no other worker away."""
        return not (self.gate.options.exclusive or self._single_active)

    @property
    def _single_active(self) -> bool:
        """Whether the queue itself sees to it, and refuses a consumer that asks for it."""
        return bool((self.queue.queue_arguments or {}).get("x-single-active-consumer"))

    def _adapts(self) -> bool:
        """Only a queue that fills its window needs another one.

        To one that does not, messages come as they are published, and so at any moment.
        """
        if not self._tag:
            return True
        return self.window.backlogged and self._settled_down() and self.window.backlogged

    def _apply_prefetch(self) -> None:
        if not self._settled_down():
            return
        if self.gate.options.exclusive:
            self.cancel()
            self._subscribe()
            return
        before = self._tag
        self._subscribe()
        if self._tag:
            self._unsubscribe(before)

    def _take_frames(self, method: bytes, header: bytes, body: bytes) -> bool:
        """Take a delivery of the present subscription; see `Frames`."""
        end = _TAG + method[_TAG - 1]
        if method[_TAG:end] != self._tag_bytes or not self._tag or not self._channel_is_open:
            return False
        (number,) = _delivery_tag(method, end)
        self._arrived(
            self._undecoded(self.channel, number, method, header, body, self._accept), self._tag
        )
        return True

    @property
    def _channel_is_open(self) -> bool:
        return self.channel.is_open and not self.channel.is_closing

    def _deliver(self, raw: Any) -> None:
        self._arrived(self.channel.message_to_python(raw), raw.delivery_info["consumer_tag"])

    def _arrived(self, message: Any, tag: str) -> None:
        self._asked = None
        self._receive(message, tag)
        self._unsettled += 1
        delay = self.window.delivered(message.arrived) if tag == self._tag else None
        if delay is not None:
            self._meter.refilled(delay)
        self._news.arrived(self)

    def _count_settled(self, message: Any) -> None:
        self._unsettled -= 1
        if message.subscription == self._tag:
            super()._count_settled(message)
        if self.retired and not self._unsettled:
            self._recovery.ended(self)

    def _park(self, message: Any) -> None:
        self._parked_here += message.subscription == self._tag
        super()._park(message)

    def _unpark(self, message: Any) -> None:
        self._parked_here -= message.subscription == self._tag
        super()._unpark(message)

    @property
    def _counted(self) -> int:
        return self._parked_here

    @property
    def _beside_parked(self) -> int:
        # What waits here may have to be put off, too, and comes on top of a new subscription's.
        least = self._ordinary - self.parked
        return int(min(super()._beside_parked, max(least, self._parking.room - len(self.buffer))))

    @property
    def holds(self) -> bool:
        return self._unsettled > 0

    def retire(self) -> None:
        super().retire()
        if not self._unsettled:
            self._recovery.ended(self)

    def close(self) -> None:
        if self._frames is not None and self.channel.channel_id is not None:
            self._frames.forget(self.channel.channel_id)
        super().close()

    def _cancelled(self, tag: str) -> None:
        if tag == self._tag:
            self._tag = ""
            self.window.disappointed()
            self._recovery.lost(self)
