"""Whether queues' targets are kept, said where people look: the log, answers, metrics.

The rule is in `celery_fair.core.urgency`. Here is what only the worker knows: how long tasks run,
and how many slots there are.
"""

import logging
import math
from collections.abc import Mapping
from time import monotonic
from typing import Any, NamedTuple

from celery_fair.core.chooser import Chooser
from celery_fair.core.targets import PERIOD, Kept, in_words
from celery_fair.core.urgency import Urgency
from celery_fair.worker.launch.in_flight import Slots

logger = logging.getLogger(__name__)

_EVERY = 5.0
"""Seconds between two looks: what is missed is said within a minute of it."""

_UNDATED = (
    "Messages of queue %s do not say when they were published. For its target (%s) they count from"
    " when they came here, and go first at once: call celery_fair.install(app) where they are"
    " published"
)

_FIGURES = ("started", "wait", "in_time", "missed", "lead")


class Looked(NamedTuple):
    """What targets are like now.

    Attributes:
        kept: by queue.
        needed: slots that this worker's part of the load takes.
        slots: slots that there are here.
    """

    kept: Mapping[str, Kept]
    needed: float
    slots: int

    def told(self, queue: str) -> dict[str, Any] | None:
        """Return a queue's as figures; None if it has no target."""
        kept = self.kept.get(queue)
        if kept is None:
            return None
        figures = {name: getattr(kept, name) for name in _FIGURES}
        slots = {"slots_needed": self.needed, "slots": self.slots}
        return {"asked": str(kept.target), **figures, **slots}

    def sentence(self, queue: str) -> str:
        """Say how a queue's target is kept, after what else is said of it."""
        kept = self.kept.get(queue)
        if kept is None:
            return ""
        urgent = f" Its messages go first from {in_words(kept.lead)} before they are due on."
        if kept.wait is None:
            return f". Its target is {kept.target}; nothing of it has started for a minute.{urgent}"
        return (
            f". Its target is {kept.target}; in the last minute {100 * kept.target.part:g}% of"
            f" {kept.started} started within {in_words(kept.wait)}.{urgent}"
        )


class TargetWatch:
    """Watches one worker's.

    Arguments:
        chooser: knows who is held back.
        urgency: knows what waited how long.
        slots: of the pool.
    """

    def __init__(self, chooser: Chooser, urgency: Urgency, slots: Slots) -> None:
        self._chooser, self._urgency, self._slots = chooser, urgency, slots
        self._look_at = 0.0
        self._took: dict[str, tuple[float, float]] = {}  # when a queue's last ended, and seconds
        self._undated: set[str] = set()
        self._said: dict[str, float] = {}  # when it was last said that a queue's is missed

    def ended(self, request: Any, seconds: float) -> None:
        """A task has ended, in the pool's thread, after so long."""
        self._took[request.message.feed.name] = monotonic(), seconds

    def look(self, now: float) -> Looked:
        """Return what targets are like now. From any thread."""
        kept = self._urgency.kept(now)
        return Looked(
            {each.queue: each for each in kept},
            self._urgency.slots_needed(kept, self._slots.in_flight.of),
            self._slots.count(),
        )

    def after_turn(self, now: float) -> float:
        """Say now and then in the log what is missed, and what is kept again; return when next."""
        if now < self._look_at:
            return self._look_at
        self._look_at = now + _EVERY
        looked = self.look(now)
        for kept in looked.kept.values():
            if not kept.is_dated and kept.queue not in self._undated:
                self._undated.add(kept.queue)
                logger.warning(_UNDATED, kept.queue, kept.target)
            if not kept.missed:
                if kept.in_time is not None and self._said.pop(kept.queue, None) is not None:
                    logger.info(
                        "The target of queue %s (%s) is kept again", kept.queue, kept.target
                    )
            elif now >= self._said.get(kept.queue, -PERIOD) + PERIOD:
                self._said[kept.queue] = now
                self._say(kept, looked, now)
        return self._look_at

    def _say(self, kept: Kept, looked: Looked, now: float) -> None:
        assert kept.wait is not None and kept.in_time is not None  # noqa: PT018 - it is missed
        logger.warning(
            "The target of queue %s (%s) is missed: of %d messages in the last minute %.3g%%"
            " started in time, and %g%% within %s; %s",
            kept.queue,
            kept.target,
            kept.started,
            100 * kept.in_time,
            100 * kept.target.part,
            in_words(kept.wait),
            self._why(kept, looked, now),
        )

    def _why(self, kept: Kept, looked: Looked, now: float) -> str:
        if (held := self._chooser.why(kept.flow, now)[0]) is not None:
            return f"it is held back ({held}), see `celery fair explain {kept.queue}`"
        if looked.needed > looked.slots:
            return f"{math.ceil(looked.needed)} slots here would do, there are {looked.slots}"
        took = {name: s for name, (at, s) in dict(self._took).items() if at > now - PERIOD}
        for each in self._slots.in_flight:
            queue, seconds = each.message.feed.name, now - each.message.begun_at
            took[queue] = max(seconds, took.get(queue, 0.0))
        slowest = max(took, key=took.__getitem__, default=kept.queue)
        if slowest != kept.queue and took[slowest] > kept.target.seconds:
            time = in_words(took[slowest])
            return f"slots do not lack here, but tasks of {slowest} take {time}: cap them"
        doubt = "slots do not lack here: was it a burst, or the worker away?"
        if took.get(kept.queue, 0.0) > kept.target.seconds / 4:
            doubt += (
                f" Its tasks take {in_words(took[kept.queue])}: busy workers may hold what others"
            )
            doubt += " could start, unless it has 'fetch': 'pull'"
        return doubt
