"""Feeds from one of kombu's emulated brokers, which take what the window has room for."""

from queue import Empty
from typing import Any

from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.pulled import Pulled
from celery_fair.worker.queues.source import Source


class VirtualFeed(Feed):
    """A queue of one of kombu's virtual transports (SQS, memory, …).

    The subscription serves to be woken; while there is work, the feed itself takes what its window
    has room for.
    """

    _consumes = ""  # by this tag

    def open(self) -> None:
        self.channel.basic_qos(0, self.room.prefetch, False)
        self._consumes = f"fair.{self.name}"
        self.queue.consume(self._consumes, self._deliver)

    def cancel(self) -> None:
        if self._consumes:
            tag, self._consumes = self._consumes, ""
            self.queue.cancel(tag)

    def refill(self) -> None:
        while self._consumes and self.room.free(len(self.buffer)) > 0 and self._took():
            pass

    def _took(self) -> Any:
        """Take a message, if there is one; return it."""
        try:
            raw = self.channel.basic_get(self.name)
        except Empty:
            return None
        if raw is not None:
            self._came(raw)
        return raw

    def _apply_window(self) -> None:
        self.window.resize(self.room.prefetch)
        self.channel.basic_qos(0, self.room.prefetch, False)

    def _deliver(self, raw: Any) -> None:
        self._came(raw)
        self.reports.arrived(self)

    def _came(self, raw: Any) -> None:
        self.window.delivered(0.0)
        self._receive(self.channel.message_to_python(raw))


class PulledVirtualFeed(Pulled, VirtualFeed):
    """By kombu's emulation of ``basic.get``."""

    def _get(self) -> int:
        return int(self.channel._size(self.name)) if self._took() is not None else 0


class VirtualSource(Source):
    """One of kombu's emulated brokers, by a channel for each queue."""

    _kind: type[Feed] = VirtualFeed
    _pulled_kind: type[Feed] = PulledVirtualFeed

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def feed(self, **options: Any) -> Feed:
        return self._kind(channel=self._connection.channel(), **options)

    def pulled(self, **options: Any) -> Feed:
        return self._pulled_kind(channel=self._connection.channel(), **options)
