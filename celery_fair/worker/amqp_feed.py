"""A feed from an AMQP broker, which pushes messages into the window."""

from time import monotonic
from typing import Any

from amqp import ChannelError

from celery_fair.core.window import RefillMeter
from celery_fair.worker.feed import Feed

__all__ = ["AmqpFeed"]


class AmqpFeed(Feed):
    """A queue of an AMQP broker, subscribed to with ``basic.consume``.

    ``basic.qos`` without *global* holds for consumers that start after it, so the window is set
    before subscribing, and changed by a second subscription that takes over from the first.
    """

    def __init__(self, *args: Any, meter: RefillMeter, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._meter = meter
        self._tag = ""
        self._generation = 0
        self._believed = False  # the broker's word that it has more, and nothing has come since

    @property
    def owed(self) -> bool:
        # What runs frees its place soon; only what a rate limit holds back may keep all of them.
        return self.window.backlogged and self._limited < self._wanted

    def has_more(self) -> bool:
        """Ask the broker: its answer tells a broker that is slow from a queue that is empty.

        It is believed once. If then still nothing comes, somebody else consumes the queue.
        """
        if self._believed:
            return False
        depth = self.depth()
        if depth is None:
            return False
        self._believed = depth > 0
        return depth > 0 or bool(self.buffer)  # what was on its way has come before the answer

    def depth(self) -> int | None:
        try:
            return int(self.channel.queue_declare(self.name, passive=True).message_count)
        except ChannelError as exc:  # deleted, and `_cancelled` will not be told any more
            self._refused(exc)
            return None

    def open(self) -> None:
        self._subscribe()

    def reopen(self) -> None:
        """The queue was deleted: declare it again and subscribe. What is buffered still runs."""
        self.queue.declare()
        self._subscribe()

    def cancel(self) -> None:
        if self._tag:
            tag, self._tag = self._tag, ""
            self.queue.cancel(tag)

    def _subscribe(self) -> None:
        self._generation += 1
        tag = f"fair.{self.name[:200]}.{self._generation}"
        self.window.resize(self.prefetch)
        self.channel.basic_qos(0, self.window.size, False)
        # Not by kombu's Queue.consume: it cannot ask for exclusive consumption.
        try:
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
            self._tag = tag

    def _refused(self, answer: ChannelError) -> None:
        self._tag = ""
        self.on_refused(self, answer)

    @property
    def _single_active(self) -> bool:
        """Whether the queue itself sees to it, and refuses a consumer that asks for it."""
        return bool((self.queue.queue_arguments or {}).get("x-single-active-consumer"))

    def _apply_prefetch(self) -> None:
        before = self._tag
        if before and self.gate.options.exclusive:
            self.cancel()
            self._subscribe()
        elif before:
            self._subscribe()
            if self._tag:
                self.queue.cancel(before)

    def _deliver(self, raw: Any) -> None:
        self._believed = False
        self._receive(raw)
        delay = self.window.delivered(monotonic())
        if delay is not None:
            self._meter.refilled(delay)
        self._on_arrival(self)

    def _cancelled(self, tag: str) -> None:
        if tag == self._tag:
            self._tag = ""
            self.window.disappointed()
            self.on_lost(self)
