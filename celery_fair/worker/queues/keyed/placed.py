"""Queues that are shared by key, and keys that have caps: what brokers' feeds have in common."""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

from celery_fair.brokers.keyed.lists import Turn
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.keyed.places import Places
from celery_fair.worker.queues.pulled import Pulled

__all__ = ["Placed"]


class Placed(Pulled):
    """Messages come by turns (see `Turn`), which are settled; some have places, which they leave.

    Arguments:
        places: of capped keys' messages.
        usual: returns what to reckon for a message that is not here yet.
    """

    def __init__(
        self, *args: Any, places: Places, usual: Callable[[], float], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._leases = places
        self._usual = usual
        self._settled: deque[tuple[Turn, float]] = deque()  # appended to by any thread

    def charged(self, item: Any, cost: float) -> None:
        """This is the message's cost, as far as it is known; nothing if it did not start.

        Then it leaves its place, unless it waits for a rate limit of Celery's alone.
        """
        message = message_of(item)
        turn: Turn | None = message.turn
        if turn is not None and cost != turn.charged:
            self._settled.append((turn, cost - turn.charged))
            message.come_by(turn._replace(charged=cost))
        if not cost and message.aside != "limit":
            self._leases.leave(self.name, message, unused=True)

    def ended(self, message: Any) -> None:
        if self._leases.leave(self.name, message, unused=False):
            self._ask_at = 0.0  # its key may have waited for that

    def take(self, now: float, started: int) -> Any:
        """Return the next message that has its place still, if it needs one."""
        item = super().take(now, started)
        while item is not None and not self._leases.holds(self.name, message_of(item)):
            self.charged(item, 0.0)
            self._return(item)
            item = super().take(now, started)
        return item

    @abstractmethod
    def _return(self, item: Any) -> None:
        """A message is to come again, as it has lost its place before it has started."""

    def die(self) -> None:
        for message in [*map(message_of, self.buffer), *self._aside.values()]:
            self._leases.leave(self.name, message, unused=True)
        super().die()
