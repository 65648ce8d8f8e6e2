"""Keys of a partition that run beside each other, while each key's messages start one by one.

A message whose key is at work waits here, and those of other keys are looked for behind it: the
oldest of each key may start, if nothing of the key runs.
"""

from collections.abc import Callable, Sequence
from typing import Any

from celery_fair.headers import KEY
from celery_fair.worker.queues.delivery import message_of

__all__ = ["AHEAD", "Lanes"]

AHEAD = 32
"""Messages of a partition that may wait here for their keys."""


class Lanes:
    """Of one queue.

    Arguments:
        runs: whether something of a key runs here.
    """

    def __init__(self, runs: Callable[[str], bool]) -> None:
        self._runs = runs

    def first(self, waiting: Sequence[Any]) -> int | None:
        """Return the place of the first that may start, None if there is none."""
        seen = set()
        for place, item in enumerate(waiting):
            lane = _lane(message_of(item))
            if lane not in seen and not self._runs(lane):
                return place
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
