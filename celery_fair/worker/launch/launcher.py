"""From the choice of a request to its start: admitted, acknowledged, handed to the pool.

Requests that are chosen one after the other, while slots are free, are launched together: what
acknowledges them is written in one go, and then the pool gets all of them. The operating system may
keep it for the rest of the turn, to send it with what comes after. A non-repeatable request waits
for no others, and its acknowledgement is sent at once, unless ``fair_ack_batch`` says otherwise: if
the worker dies in between, what was acknowledged has not started and is lost, and if the connection
does, what has started was not acknowledged.
"""

from collections.abc import Callable, Sequence
from typing import Any

from celery.worker import state

from celery_fair.core.disposition import Policy
from celery_fair.tasks import MAPS, policy_of, refuse_mapped
from celery_fair.worker.launch.admission import Admission
from celery_fair.worker.launch.in_flight import Slots
from celery_fair.worker.launch.requests import Requests, check_options, check_time_limits
from celery_fair.worker.letters import refuse
from celery_fair.worker.queues.source import Source


class Launcher:
    """Those that are about to start; each has its slot.

    Attributes:
        offer: returns the request that Celery makes of a message, or None if it makes none.
        prepare: makes a request of a message ahead of its turn, if it can.
        in_flight: what has a slot.
        slots: returns how many may have one, now.

    Arguments:
        slots: those of the pool, and what occupies them.
        requests: has Celery make requests of messages.
        admission: says which requests may start.
        outbox: sends the acknowledgements.
        batch: how many non-repeatable ones are launched, or are acknowledged, together at the most.
        handed_over: told when the pool has got all that was launched together.
        acks_first: whether repeatable ones are acknowledged here too, not by Celery when they
            start.
        noted: told of each request that is about to be handed to the pool.
    """

    def __init__(
        self,
        slots: Slots,
        requests: Requests,
        admission: Admission,
        outbox: Source,
        batch: int,
        handed_over: Callable[[], object],
        acks_first: bool = False,
        noted: Sequence[Callable[[Any], object]] = (),
    ) -> None:
        self._slots = slots
        self._admission = admission
        self._outbox = outbox
        self._batch = batch
        self._handed_over = handed_over
        self._acks_first = acks_first
        self._noted = noted
        self._ready: list[Any] = []
        self._once_ready = 0
        self._unsent = 0
        self.in_flight, self.slots = slots.in_flight, slots.count
        self.offer, self.prepare = requests.offer, requests.prepare

    def take(self, request: Any) -> bool:
        """Let a request be launched if it may start, else see to what becomes of it; return which.

        It has a slot then, and its acknowledgement is written if that is to be done first.
        """
        if not self._may_start(request):
            state.task_ready(request)
            return False
        self.in_flight.add(request)
        self._ready.append(request)
        self._once_ready += self._starts_once(request)
        full = len(self.in_flight) >= self.slots()
        if full or self._once_ready >= self._batch or self._outbox.asks:
            self.launch()
        return True

    def _may_start(self, request: Any) -> bool:
        try:
            check_time_limits(request)
            if self._starts_once(request):
                check_options(request)
            elif request.task.name in MAPS:
                refuse_mapped(request)
            state.task_reserved(request)
            hash(request.name)  # Celery counts by it, before it acknowledges; it may be a "shadow"
            if request.revoked():  # which sees to it
                return False
            return self._admission.admits(request) and (
                request.acknowledged
                or not self._acks_early(request)
                or self._admission.acknowledged_early(request)
            )
        except Exception as exc:  # noqa: BLE001 - a message may fail in any way; the worker must not
            refuse(request.message, exc)
            return False

    def _acks_early(self, request: Any) -> bool:
        """Whether a request that may be repeated is acknowledged here."""
        return self._acks_first and not request.task.acks_late

    def launch(self) -> bool:
        """Start all that are ready; return whether there were any."""
        ready, self._ready = self._ready, []
        if ready:
            try:
                if self._acks_first or self._once_ready:
                    self._outbox.flush(more=self._more_may_follow())
            except Exception as exc:  # noqa: BLE001 - any doubt about an acknowledgement
                self._break_off(ready, exc)
            else:
                for request in ready:
                    if request.message.feed.dead and self._starts_once(request):
                        self._give_up(request, ConnectionError("its channel was closed meanwhile"))
                    else:
                        self._start(request)
                self._handed_over()
        return bool(ready)

    def abandon(self) -> None:
        """The connection is gone, or the worker stops, in the midst of a turn."""
        ready, self._ready = self._ready, []
        self._break_off(ready, ConnectionError("the connection ended before it was started"))

    def _break_off(self, ready: list[Any], exc: Exception) -> None:
        """What acknowledges them may have arrived, or not.

        Of what may start twice, that starts which the broker may have forgotten; all else comes
        again, or has to be a dead letter.
        """
        for request in ready:
            if self._starts_once(request):
                self._give_up(request, exc)
            elif self._acks_early(request):
                self._start(request)
            else:
                self._leave(request)

    def _starts_once(self, request: Any) -> bool:
        return policy_of(request.task) is not Policy.REPEATABLE

    def _give_up(self, request: Any, why: Exception) -> None:
        self._admission.not_acknowledged(request, why)
        self._leave(request)

    def _more_may_follow(self) -> bool:
        self._unsent += self._once_ready
        self._once_ready = 0
        more = self._unsent < self._batch
        if not more:
            self._unsent = 0
        return more

    def _start(self, request: Any) -> None:
        try:
            for told in self._noted:
                told(request)
            self._slots.fill(request)
            if request._already_revoked:  # it has expired just now
                self.in_flight.remove(request)
        except Exception as exc:  # noqa: BLE001 - a message may fail in any way; the worker must not
            refuse(request.message, exc)
            self._leave(request)

    def _leave(self, request: Any) -> None:
        self.in_flight.remove(request)
        state.task_ready(request)
