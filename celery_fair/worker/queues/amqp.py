"""Feeds from an AMQP broker, which pushes messages into the window, or is asked for each."""

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from struct import Struct
from time import monotonic
from typing import Any, Protocol

from amqp import ChannelError

from celery_fair.core.window import RefillMeter
from celery_fair.worker import patches
from celery_fair.worker.amqp_io.channels import SharedChannel
from celery_fair.worker.amqp_io.writer import AckWriter
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.pulled import Pulled

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


class OnChannel(Feed):
    """A queue of an AMQP broker, on a channel that the broker may close.

    Arguments:
        acks: keeps acknowledgements, to send them together.
    """

    _tag: str = ""  # of the present subscription; what was asked for has come by none

    def __init__(self, *args: Any, acks: AckWriter, **options: Any) -> None:
        super().__init__(*args, **options)
        self._acks = acks
        if isinstance(self.channel, SharedChannel):
            self.channel.when_closed(self._closed)
        else:
            patches.tell_of_close(self.channel, self._closed)

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
        """Whether ``basic.get`` would do as well.

        It keeps no other worker away, nor the broker from deleting a queue that nobody consumes.
        """
        queue, alone = self.queue, self.gate.options.exclusive or self._single_active
        expires = queue.expires or "x-expires" in (queue.queue_arguments or {})
        return not (alone or queue.auto_delete or expires)

    @property
    def _single_active(self) -> bool:
        """Whether the queue itself sees to it, and refuses a consumer that asks for it."""
        return bool((self.queue.queue_arguments or {}).get("x-single-active-consumer"))

    def reopen(self) -> None:
        """The queue was deleted: declare it again and subscribe. What is buffered still runs."""
        self.queue.declare()
        self.open()

    def _depth(self) -> int:
        try:
            return int(self.channel.queue_declare(self.name, passive=True).message_count)
        except ChannelError as exc:  # deleted, and nobody will be told any more
            self._refused(exc)
            return 0

    def _refused(self, answer: ChannelError) -> None:
        self._tag = ""
        self._recovery.refused(self, answer)

    def _closed(self, number: int, reason: Exception) -> None:
        if not self.dead:  # or a shared channel has said so
            self._tag = ""
            self._recovery.closed(self, reason)


class AmqpFeed(OnChannel):
    """A queue that is subscribed to with ``basic.consume``.

    ``basic.qos`` without *global* holds for consumers that start after it, so the window is set
    before subscribing, and changed by a second subscription that takes over from the first. What
    came by the first is not counted in the second's window, however long it is kept.

    Arguments:
        meter: the worker's, of all its feeds.
        frames: if given, hands over deliveries that are not decoded yet.
    """

    pushes = True

    def __init__(
        self,
        *args: Any,
        meter: RefillMeter,
        frames: RawDeliveries | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._meter = meter
        self._frames = frames
        if frames is not None:
            self._undecoded = frames.message_class(self.channel.Message)
            patches.acknowledge_by(self.channel, self._acks.ack)
        self._tag_bytes = b""
        self._asked: float | None = None  # first, whether there is more; nothing has come since

    @property
    def owed(self) -> bool:
        # What runs frees its place soon; only what a rate limit holds back may keep all of them.
        return self.window.backlogged and self.room.limited < self.room.wanted

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

    def open(self) -> None:
        # A former feed of the queue may have subscribed on the same channel, if that is shared.
        tag = f"fair.{self.name[:200]}.{next(_numbers)}"
        size = min(max(1, self.room.beside_parked(len(self.buffer))), _MOST)
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
            self.room.renew()
            self._tag = tag
            if self._frames is not None:
                self._tag_bytes = tag.encode()
                self._frames.register(self.channel.channel_id, self._take_frames)

    def cancel(self) -> None:
        if self._settled_down():
            tag, self._tag = self._tag, ""
            self._unsubscribe(tag)

    def close(self) -> None:
        if self._frames is not None and self.channel.channel_id is not None:
            self._frames.forget(self.channel.channel_id)
        super().close()

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
        # What was on its way comes before the broker's answer, and may have filled the window.
        while self._owes_refills and patience > 0 and self._depth() > 0 and self._owes_refills:
            answered = monotonic()
            with suppress(TimeoutError):
                self.channel.connection.drain_events(timeout=self._meter.patience)
            patience -= monotonic() - answered
            if self.window.held > held:
                held, patience = self.window.held, _REFILL
        if self._owes_refills:
            self.window.disappointed()
        return bool(self._tag)

    @property
    def _owes_refills(self) -> bool:
        return bool(self._tag) and self.window.backlogged and self.window.held < self.window.size

    def _adapts(self) -> bool:
        """Only a queue that fills its window needs another one.

        To one that does not, messages come as they are published, and so at any moment.
        """
        if not self._tag:
            return True
        return self.window.backlogged and self._settled_down() and self.window.backlogged

    def _apply_window(self) -> None:
        alone = self.gate.options.exclusive
        if (alone and self.queue.auto_delete) or not self._settled_down():
            return  # the broker would delete it with its only consumer
        before = self._tag
        if alone:
            self.cancel()
            before = ""
        self.open()
        if self._tag and before:
            self._unsubscribe(before)

    def _unsubscribe(self, tag: str) -> None:
        number = self.channel.channel_id
        try:
            self.queue.cancel(tag)
        except ChannelError as exc:  # it was closed already, which nobody had read yet
            self._closed(number, exc)

    def _closed(self, number: int, reason: Exception) -> None:
        if self._frames is not None and not self.dead:
            self._frames.forget(number)
        super()._closed(number, reason)

    def _cancelled(self, tag: str) -> None:
        """The broker has deleted the queue."""
        if tag == self._tag:
            self._tag = ""
            self.window.disappointed()
            self._recovery.lost(self)

    # What comes -----------------------------------------------------------------------

    def _take_frames(self, method: bytes, header: bytes, body: bytes) -> bool:
        """Take a delivery of the present subscription; see `Frames`."""
        end, channel = _TAG + method[_TAG - 1], self.channel
        is_open = channel.is_open and not channel.is_closing
        if method[_TAG:end] != self._tag_bytes or not self._tag or not is_open:
            return False
        (number,) = _delivery_tag(method, end)
        message = self._undecoded(channel, number, method, header, body, self._accept)
        self._arrived(message, self._tag)
        return True

    def _deliver(self, raw: Any) -> None:
        self._arrived(self.channel.message_to_python(raw), raw.delivery_info["consumer_tag"])

    def _arrived(self, message: Any, tag: str) -> None:
        self._asked = None
        self._receive(message, tag)
        delay = self.window.delivered(message.arrived) if tag == self._tag else None
        if delay is not None:
            self._meter.refilled(delay)
        self.reports.arrived(self)


class PulledAmqpFeed(Pulled, OnChannel):
    """By ``basic.get``, whose answer has the number of messages left."""

    def _get(self) -> int:
        try:
            raw = self.channel.basic_get(self.name)
        except ChannelError as exc:
            self._refused(exc)
            return 0
        if raw is None:
            return 0
        self._receive(self.channel.message_to_python(raw))
        return int(raw.delivery_info["message_count"])
