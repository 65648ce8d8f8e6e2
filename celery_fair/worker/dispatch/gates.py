"""The gates of a worker's queues. They outlive connections, like what was set live."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

from celery_fair.core.gate import Gate, Leash, LocalLeash
from celery_fair.settings import QueueOptions, Settings
from celery_fair.worker.dispatch.cluster_leash import ClusterLeash

__all__ = ["Gates"]


class Gates:
    """One for each queue that was ever consumed.

    Arguments:
        settings: of the app.
        member: this worker's name among those that share a leash.
        kept: returns what of a queue was set live, and is kept: its options, and whether it is
            paused.
    """

    def __init__(
        self,
        settings: Settings,
        member: str,
        kept: Callable[[str], tuple[Mapping[str, Any], bool]] = lambda _: ({}, False),
    ) -> None:
        self._kept = kept
        self._settings = settings
        self._member = member
        self._gates: dict[str, Gate[QueueOptions]] = {}

    def of(self, queue: str) -> Gate[QueueOptions]:
        """Return the queue's gate, made as the settings say."""
        if queue not in self._gates:
            changes, paused = self._kept(queue)
            options = replace(self._settings.queue(queue), **changes)
            self._gates[queue] = Gate(options, self._leash(queue, options))
            self._gates[queue].pause(paused)
        return self._gates[queue]

    def options(self, queue: str) -> QueueOptions:
        """Return the queue's options, as they were set last."""
        gate = self._gates.get(queue)
        return self._settings.queue(queue) if gate is None else gate.options

    def change(self, queue: str, options: QueueOptions) -> None:
        """Give a queue other options, from now on and on every later connection."""
        gate = self.of(queue)
        before, leash = gate.options, gate.leash
        if options.rate is None or leash is None:
            leash = self._leash(queue, options)
        elif (options.rate, options.burst) != (before.rate, before.burst):
            leash.change(options.rate, options.burst, monotonic())
        gate.change(options, leash)

    def _leash(self, queue: str, options: QueueOptions) -> Leash | None:
        if options.rate is None:
            return None
        if options.scope == "worker":
            return LocalLeash(options.rate, options.burst, monotonic())
        assert self._settings.leash_url is not None
        return ClusterLeash(
            self._settings.leash_url,
            queue,
            options.rate,
            options.burst,
            self._member,
            self._settings.leash_prefix,
        )
