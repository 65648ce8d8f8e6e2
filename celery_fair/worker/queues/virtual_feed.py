"""A feed from one of kombu's emulated brokers, which takes what the window has room for."""

from queue import Empty
from threading import Semaphore
from typing import Any

from celery_fair.worker import host
from celery_fair.worker.queues.delivery import patient_class
from celery_fair.worker.queues.feed import Feed

__all__ = ["VirtualFeed"]

_OTHERS = 3
"""Connections of a channel's for what is not settled: to fetch, to restore, to bury."""


class VirtualFeed(Feed):
    """A queue of one of kombu's virtual transports (Redis, memory, …).

    The subscription serves to be woken; while there is work, the feed itself takes what its window
    has room for.
    """

    def _adopt(self, channel: Any) -> None:
        super()._adopt(channel)
        most = getattr(channel, "max_connections", None)  # kombu's Redis transport has 10
        if most is not None:
            turns = Semaphore(max(1, most - _OTHERS))
            host.adopt(channel, patient_class(channel.Message, turns))

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
