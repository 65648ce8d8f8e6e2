"""What a worker can be told while it runs: other options of a queue, a pause, or to look."""

from collections.abc import Callable
from time import monotonic
from typing import Any

from celery_fair.core.chooser import Chooser
from celery_fair.settings import Settings
from celery_fair.worker.bell import Bell
from celery_fair.worker.dispatch.gates import Gates
from celery_fair.worker.queues.open_feeds import OpenFeeds

__all__ = ["Orders"]


class Orders:
    """Carries them out for one worker, on the thread that owns the channels.

    Arguments:
        resize: has windows looked at, as quanta or rates are others now.
    """

    def __init__(
        self,
        settings: Settings,
        feeds: OpenFeeds,
        chooser: Chooser,
        gates: Gates,
        bell: Bell,
        resize: Callable[[], object],
    ) -> None:
        self._settings = settings
        self._feeds = feeds
        self._chooser = chooser
        self._gates = gates
        self._bell = bell
        self._resize = resize

    def set(self, queue: str, options: dict[str, Any], check: bool = False) -> dict[str, Any]:
        """Change a queue's options; all of them, or none if one is wrong, or if only to `check`.

        They hold from now on, and on every later connection.

        Raises:
            NotConsumedError: the queue is not consumed by this worker.
            celery.exceptions.ImproperlyConfigured: an option that is not there, cannot be changed
                while consuming, or has a value out of bounds.
        """
        feed = self._feeds.must_have(queue)
        after = self._settings.changed(queue, options, self._gates.options(queue))
        if not check:
            if feed is not None and after.quantum != feed.gate.options.quantum:
                self._chooser.reweight(feed.flow, after.quantum)
            self._gates.change(queue, after)
            self._regate(queue)
            self._resize()
        said = (f"{name}={'none' if value is None else value}" for name, value in options.items())
        return {"ok": f"{queue}: " + ", ".join(said)}

    def pause(self, queue: str, paused: bool) -> dict[str, Any]:
        """Hold a queue back, or end that.

        Raises:
            NotConsumedError: the queue is not consumed by this worker.
        """
        self._feeds.must_have(queue)
        self._gates.of(queue).pause(paused)
        self._regate(queue)
        return {"ok": f"{queue}: {'paused' if paused else 'resumed'}"}

    def look(self, queue: str) -> None:
        """Take in what the broker has of a queue of which nothing is here.

        Without a free slot nobody has looked at a broker that does not push.
        """
        feed = self._feeds.named(queue)
        if feed is not None and not feed.buffer:
            feed.refill()
            feed.news.arrived(feed)

    def _regate(self, queue: str) -> None:
        feed = self._feeds.named(queue)
        if feed is not None:
            self._chooser.regate(feed.flow, monotonic())
        self._bell.later()
