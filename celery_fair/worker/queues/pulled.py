"""Queues that are asked for a message when a slot is free for it, and hold none before.

Nothing is subscribed to, so nothing waits at a busy worker: a message is taken when its queue has
been chosen, one at a time. The broker's answer says how many are left, and while there are some the
queue takes part in the rounds like one whose messages are here. A queue that was found empty is
asked again after a while: a millisecond at first, and twice as long each time, up to an interval.
Under strict order it is also asked before every choice, so that what is urgent waits for one
message at the most.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from celery_fair.headers import KEY
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.feed import Feed

_FIRST_WAIT = 0.001

_AHEAD = 32
"""Messages of a partition that may wait here for their keys."""


def first_of_a_key(waiting: Sequence[Any], runs: Callable[[str], bool]) -> Any:
    """Return the first message that may start, None if there is none.

    Keys of a partition run beside each other, while each key's messages start one by one. A message
    whose key is at work waits here, and those of other keys are looked for behind it: the oldest of
    each key may start, if nothing of the key runs.

    Arguments:
        runs: whether something of a key runs here.
    """
    seen = set()
    for item in waiting:
        lane = _lane(message_of(item))
        if lane not in seen and not runs(lane):
            return item
        seen.add(lane)
    return None


def _lane(message: Any) -> str:
    """Return a message's key: as it was published with, or by other publishers, the routing key.

    From now on it says so itself: a retry, or a copy that is given back, comes by the partition's
    name.
    """
    if message.lane is None:
        headers = message.headers if isinstance(message.headers, dict) else {}
        key = str(headers.get(KEY, message.delivery_info.get("routing_key")))
        message.take_lane(key)
        if key != message.feed.name:
            headers.setdefault(KEY, key)
    return str(message.lane)


class Pulled(Feed):
    """What the queues of all brokers have in common.

    Arguments:
        interval: seconds between two questions to an empty queue at the most.
        eager: whether an empty queue is asked again as soon as another message was started.
        runs: given where keys of the queue run beside each other: whether something of a key does.
    """

    asks = True
    _most_waiting: float = _AHEAD

    def __init__(
        self,
        *args: Any,
        interval: float,
        eager: bool,
        runs: Callable[[str], bool] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._runs = runs
        self._interval, self._eager = interval, eager
        self._is_open = False
        self._left = 0
        self._wait = self._ask_at = 0.0
        self._asked_after = -1

    def open(self) -> None:
        self._is_open = True
        self.reports.arrived(self)

    def cancel(self) -> None:
        self._is_open = False

    def refill(self) -> None:
        """A message is taken for a free slot only."""

    def _apply_window(self) -> None:
        """There is no window."""

    @property
    def startable(self) -> Any:
        if self._runs is not None:
            return first_of_a_key(self.buffer, self._runs)
        return super().startable

    def ask_at(self, started: int) -> float:
        """Return when to ask; at once if that is past, or another message was started since.

        Arguments:
            started: how many messages the worker has ever started.
        """
        if (self._eager and started != self._asked_after) or self.startable is not None:
            return 0.0
        return math.inf if self._is_full else self._ask_at

    @property
    def comes(self) -> bool:  # type: ignore[override]
        return bool(self._left) and not self._is_full

    def take(self, now: float, started: int) -> Any:
        item, came = self.startable, True
        while item is None and came and self._may_ask:
            had = len(self.buffer)
            self._left = self._get()
            self.empty_at = self.empty_at if self._left else now
            item, came = self.startable, len(self.buffer) > had
        if item is not None:
            self._wait = self._ask_at = 0.0
            self.buffer.remove(item)
            self.given += 1
            return item
        if not self._is_full:
            self._left = 0
        self._wait = min(max(2 * self._wait, _FIRST_WAIT), self._interval)
        self._ask_at, self.empty_at = now + self._wait, now
        self._asked_after = started
        return None

    @property
    def _may_ask(self) -> bool:
        return self._is_open and self.room.has_any and not (self.room.limited or self._is_full)

    @property
    def _is_full(self) -> bool:
        return len(self.buffer) >= self._most_waiting

    @abstractmethod
    def _get(self) -> int:
        """Take a message into the buffer, if there is one; return how many are left."""
