"""From the choice of a request to its start: admitted, acknowledged, handed to the pool.

Requests that are chosen one after the other, while slots are free, depart together: what
acknowledges them is written in one go, and then the pool gets all of them. The operating system may
keep it for the rest of the turn, to send it with what comes after. A non-repeatable request waits
for no others, and its acknowledgement is sent at once, unless ``fair_ack_batch`` says otherwise: if
the worker dies in between, what was acknowledged has not started and is lost, and if the connection
does, what has started was not acknowledged.
"""

from collections.abc import Callable
from typing import Any

from celery.worker import state

from celery_fair.core.disposition import Policy
from celery_fair.tasks import policy_of
from celery_fair.worker.in_flight import InFlight, check_time_limits
from celery_fair.worker.once import Once
from celery_fair.worker.recorder import Recorder
from celery_fair.worker.shield import refuse
from celery_fair.worker.slots import Slots
from celery_fair.worker.source import Source

__all__ = ["Boarding"]


class Boarding:
    """Those that are about to start; each has its slot.

    Arguments:
        batch: how many non-repeatable ones depart, or are acknowledged, together at the most.
        source: returns the present connection's source.
        handed_over: told when the pool has got all that departed together.
    """

    def __init__(
        self,
        in_flight: InFlight,
        slots: Slots,
        once: Once,
        batch: int,
        source: Callable[[], Source],
        handed_over: Callable[[], object],
    ) -> None:
        self._in_flight = in_flight
        self._slots = slots
        self._once = once
        self._batch = batch
        self._source = source
        self._handed_over = handed_over
        self._aboard: list[Any] = []
        self._once_aboard = 0
        self._unsent = 0
        self.acks_first = False
        """Whether repeatable ones are acknowledged here too, not by Celery when they start."""
        self.recorder: Recorder | None = None

    def take(self, request: Any) -> None:
        """Let a request board, if it may start; else see to what becomes of it."""
        try:
            check_time_limits(request)
            hash(request.name)  # Celery counts by it, before it acknowledges; it may be a "shadow"
            if request.revoked():  # which sees to it
                return
            if self._once.admits(request) and self._acknowledged(request):
                self._in_flight.board(request)
                self._aboard.append(request)
                self._once_aboard += policy_of(request.task) is not Policy.REPEATABLE
                if self._once_aboard >= self._batch or self._source().asks:
                    self.depart()
                return
        except Exception as exc:  # noqa: BLE001 - a message may fail in any way; the worker must not
            refuse(request.message, exc)
        state.task_ready(request)

    def _acknowledged(self, request: Any) -> bool:
        if not self.acks_first or request.acknowledged or request.task.acks_late:
            return True
        return self._once.acknowledged(request)

    def depart(self) -> bool:
        """Start all that are aboard; return whether there were any."""
        aboard, self._aboard = self._aboard, []
        if aboard:
            try:
                self._source().flush(more=self._more_may_follow())
            except Exception as exc:  # noqa: BLE001 - any doubt about an acknowledgement: do not start
                for request in aboard:
                    self._once.not_acknowledged(request, exc)
                    self._leave(request)
            else:
                for request in aboard:
                    self._start(request)
                self._handed_over()
        return bool(aboard)

    def _more_may_follow(self) -> bool:
        self._unsent += self._once_aboard
        self._once_aboard = 0
        more = self._unsent < self._batch
        if not more:
            self._unsent = 0
        return more

    def _start(self, request: Any) -> None:
        try:
            if self.recorder is not None:
                self.recorder.note(request)
            self._slots.fill(request)
            if request._already_revoked:  # it has expired just now
                self._in_flight.land(request)
        except Exception as exc:  # noqa: BLE001 - a message may fail in any way; the worker must not
            refuse(request.message, exc)
            self._leave(request)

    def _leave(self, request: Any) -> None:
        self._in_flight.land(request)
        state.task_ready(request)
