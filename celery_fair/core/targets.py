"""Targets: what a queue's messages may wait, such as "95% < 0.5s"; and how they are kept.

See `celery_fair.core.urgency` for the rule.
"""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from celery_fair.core.dwrr import Flow

_NEARLY = 0.9
_GAIN = 0.05
_LEAST = 0.5

TINY = 1e-9
"""Of a part, by which floats may be off."""

FLOOR = 0.01
"""The part of a worker that a queue without a target has at the least, if nobody says otherwise."""

PERIOD = 60.0
"""Seconds that a report looks back."""

_TEXT = re.compile(
    r"\s*(?P<percent>\d+(?:\.\d+)?)\s*%\s*<\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|min|h)\s*"
)
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


class Target(NamedTuple):
    """So large a part of the messages starts within so many seconds of being published."""

    part: float
    seconds: float

    def __str__(self) -> str:
        return f"{100 * self.part:.12g}% < {in_words(self.seconds, digits=12)}"


def in_words(seconds: float, digits: int = 3) -> str:
    """Return a time in the unit that suits it, as a target is written."""
    unit = next((u for u in ("h", "min", "s") if seconds >= 0.9995 * _UNITS[u]), "ms")
    return f"{seconds / _UNITS[unit]:.{digits}g}{unit}"


def parse_target(text: object) -> Target:
    """Return what a text such as "95% < 0.5s" says; the units are ms, s, min and h.

    Raises:
        ValueError: it is no such text, or what it says cannot be meant.
    """
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"a target is written like '95%<0.5s', with ms, s, min or h, not {text!r}")
    percent, seconds = float(match["percent"]), float(match["number"]) * _UNITS[match["unit"]]
    if not 50 <= percent < 100:
        raise ValueError(
            f"a target is of at least 50% of the messages and of less than 100%, not {percent:g}%:"
            " that every single one is in time nobody can promise, '99.9%' is as near as it gets"
        )
    if not 0.001 <= seconds <= 30 * 86400:
        raise ValueError(
            f"a target is a wait from 1ms to 720h, not {match['number']}{match['unit']}"
        )
    return Target(percent / 100, seconds)


class Lead:
    """How long before it is due a queue's head becomes urgent; see the module's text."""

    __slots__ = ("_allowed", "_gain", "_late", "_least", "_most", "seconds")

    def __init__(self, target: Target) -> None:
        self.seconds = self._most = target.seconds
        self._least = _LEAST * target.seconds
        self._late = _NEARLY * target.seconds
        self._gain = _GAIN * target.seconds
        self._allowed = (1 - target.part) / 2

    def started(self, wait: float) -> None:
        """Learn from a message that has waited for so many seconds when it started."""
        if wait > self._late:
            self.seconds = min(self.seconds + self._gain * (1 - self._allowed), self._most)
        elif self.seconds > self._least:
            self.seconds = max(self.seconds - self._gain * self._allowed, self._least)


class Kept(NamedTuple):
    """How a queue's target has been kept of late.

    Attributes:
        flow: the queue.
        target: what is asked for.
        started: messages that the rest goes by: of the last minute, and at the most a thousand.
        wait: seconds within which the target's part of them started; None if there was none.
        in_time: the part of them that was in time; None if there was none.
        lead: seconds before it is due that a message is urgent.
        load: messages a second that have to start for the target to be kept.
        had: messages that this is told by, whether the target is for them or not.
        is_dated: whether its messages say when they were published, or only when they came.
    """

    flow: Flow
    target: Target
    started: int
    wait: float | None
    in_time: float | None
    lead: float
    load: float
    had: int
    is_dated: bool

    @property
    def queue(self) -> str:
        return self.flow.key

    @property
    def missed(self) -> bool:
        """Whether fewer were in time than the target asks for."""
        return self.in_time is not None and self.in_time < self.target.part - TINY


def arrivals(published: Sequence[float], seconds: float) -> float:
    """Return how many messages a second were published, by when those that have started were.

    That tells it without asking the broker. What was published at once is to start within the
    target: so many `seconds` count at the least, or a minute if the target is longer. Of ten the
    first one may say any time, or the last one.
    """
    count = len(published)
    if count < 2:
        return 0.0
    ordered, cut = sorted(published), count // 10
    span = ordered[-1 - cut] - ordered[cut]
    return (count - 1 - 2 * cut) / max(span, min(seconds, PERIOD), TINY)


def slots_needed(work: float, set_apart: float = 0.0) -> float:
    """Return how many slots the work of queues with a target takes (square-root staffing).

    Arguments:
        work: slots that they keep busy on the average: messages a second times seconds of each
            (Little, 1961). Of several workers, each its part: what this returns may be added up.
        set_apart: the part that is others'.

    The work and its root, so that what varies finds a slot (Halfin & Whitt, 1981).
    """
    busy = work / (1 - set_apart)
    return busy + math.sqrt(busy)
