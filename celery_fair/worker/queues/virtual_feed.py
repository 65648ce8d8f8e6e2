"""A feed from one of kombu's emulated brokers, which takes what the window has room for."""

from queue import Empty
from typing import Any

from celery_fair.worker.queues.feed import Feed

__all__ = ["VirtualFeed"]


class VirtualFeed(Feed):
    """A queue of one of kombu's virtual transports (SQS, memory, …).

    The subscription serves to be woken; while there is work, the feed itself takes what its window
    has room for.
    """

    def open(self) -> None:
        self.channel.basic_qos(0, self.prefetch, False)
        self._tag = f"fair.{self.name}"
        self.queue.consume(self._tag, self._deliver)

    def cancel(self) -> None:
        if self._tag:
            tag, self._tag = self._tag, ""
            self.queue.cancel(tag)

    def refill(self) -> None:
        while self._tag and self.room > 0:
            try:
                raw = self.channel.basic_get(self.name)
            except Empty:
                return
            if raw is None:
                return
            self.window.delivered(0.0)
            self._receive(self.channel.message_to_python(raw))

    def _apply_prefetch(self) -> None:
        self.window.resize(self.prefetch)
        self.channel.basic_qos(0, self.prefetch, False)

    def _deliver(self, raw: Any) -> None:
        self.window.delivered(0.0)
        self._receive(self.channel.message_to_python(raw))
        self._news.arrived(self)
