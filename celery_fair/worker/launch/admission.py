"""At most once: what comes between the choice of a message and its start.

What is known of a delivery, by the word of the broker and that of the ledger, says whether it may
start. The acknowledgement is made here, on the live channel, and whatever it raises means: do not
start. Celery's own swallows errors and goes on, and under prefork leaves after the task has begun.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from amqp import RecoverableConnectionError

from celery_fair.brokers.mover import Mover
from celery_fair.brokers.payload import is_redelivered
from celery_fair.brokers.redis_acks import NotHeldError
from celery_fair.core.disposition import Action, Delivery, Policy, disposition, proves_unstarted
from celery_fair.dead_letters.death import DUPLICATE, REDELIVERED
from celery_fair.headers import LEDGER, PUBLISHED, STRICT
from celery_fair.ledger import Claim, Ledger, LedgerUnreachableError, fingerprint
from celery_fair.tasks import claimable, is_of, policy_of
from celery_fair.worker.away import Away
from celery_fair.worker.letters import DeadLetters
from celery_fair.worker.queues.source import Source

logger = logging.getLogger(__name__)

_HELD = 100
"""Messages of a queue that are put off here and let others pass; with more of them it stands."""

_RETRY = 5.0
"""Seconds until the log, or a mark, is tried again."""


class Claims:
    """Claims work before it starts.

    While the ledger is away, messages are marked, so that later no ledger takes the want of a claim
    for a proof: of a message with the mark the broker's word is believed alone, as without a
    ledger. When it is back, its epoch is renewed, for the sake of a message whose marked copy is
    on its way while the broker delivers it again. Each attempt to claim has a name of its own, and
    a mark is that of one without an answer: if its claim is made after all, the copy takes it over.

    So are messages that name a ledger which is not this worker's: one that it started without a
    claim there would be taken for unstarted by those who ask there.

    Arguments:
        ledger: none, and each message is judged by the broker's word.
        since: from when on, in seconds since 1970, no worker has started anything without a claim
            in it; None: that is not known, and the want of a claim proves nothing.
    """

    def __init__(self, ledger: Ledger | None, since: float | None = None) -> None:
        self._ledger = ledger
        self._since = since
        self._name = None if ledger is None else fingerprint(ledger.url)
        self._away = Away(_lost, lambda: logger.warning("The ledger is back"))

    def judge(self, request: Any) -> tuple[Delivery, str, str]:
        """Claim a request's work.

        Returns:
            What is known of the delivery, what names the work, and who has claimed it already; or
            the mark of a message for which the ledger was asked in vain.

        Raises:
            Exception: the task's ``key`` makes nothing of the arguments.
        """
        message = request.message
        redelivered = is_redelivered(message)
        by_broker = Delivery.REDELIVERED if redelivered else Delivery.FRESH
        if not redelivered and may_be_claimed_elsewhere(message.headers, self._name):
            return Delivery.UNKNOWN, "", ""
        if self._ledger is None:
            return by_broker, "", ""
        work, own = request.task.work(request), claimable(str(request.id))
        attempt, marked = str(uuid4()), (message.headers or {}).get(STRICT)
        owner, late = f"{attempt} {own}", f"{claimable(str(marked))} {own}"
        claim = self._claim(work, owner, redelivered, late)
        if claim is None:  # nor is there one to give up
            found = by_broker if redelivered or marked else Delivery.UNKNOWN
            return found, work if redelivered else "", attempt
        if claim.owner is not None and claim.owner != owner:  # it may have been asked twice
            return Delivery.CLAIMED, work, claim.owner
        if redelivered and not marked and self._proves_unstarted(message, claim):
            return Delivery.UNSTARTED, work, ""
        return by_broker, work, ""

    def _proves_unstarted(self, message: Any, claim: Claim) -> bool:
        assert self._ledger is not None
        headers = message.headers or {}
        return headers.get(LEDGER) == self._name and proves_unstarted(
            headers.get(PUBLISHED), self._since, claim.epoch, claim.now, self._ledger.expiry
        )

    def _claim(self, work: str, owner: str, redelivered: bool, late: str) -> Claim | None:
        ledger, away = self._ledger, self._away
        assert ledger is not None

        def claim() -> Claim:
            if away.is_so:
                ledger.renew()
            return ledger.claim(work, owner, redelivered, late)

        return away.asked(claim, LedgerUnreachableError)

    def give_up(self, work: str) -> None:
        """The work was claimed, and has not been started."""
        if self._ledger is not None and work:
            try:
                self._ledger.forget(work)
            except LedgerUnreachableError as exc:
                logger.warning(
                    "A claim of what has not started is left in the ledger: %s. A message for the"
                    " same work is dead-lettered until it expires",
                    exc,
                )

    def open(self) -> None:
        """Ask for the first time, so that the ledger's epoch is no later than the first message."""
        if self._ledger is not None and self._claim("celery-fair", "", False, "") is not None:
            self.give_up("celery-fair")

    def close(self) -> None:
        """Leave nothing open."""
        if self._ledger is not None:
            self._ledger.close()


def _lost(exc: Exception) -> None:
    logger.error(
        "The ledger cannot be reached (%s). Until it is back, and for the messages that come by"
        " meanwhile, whatever was delivered before is dead-lettered",
        exc,
    )


def may_be_claimed_elsewhere(headers: Mapping[str, Any] | None, name: str | None) -> bool:
    """Say whether another ledger than the one of this name, or None, may be asked about a message.

    None is asked about one that is marked.
    """
    headers = headers or {}
    return headers.get(LEDGER, name) != name and not headers.get(STRICT)


class Admission:
    """Lets requests pass that may start. One a connection.

    Arguments:
        receipts: acknowledges.
        mover: gives back what is to be judged by another worker.
        dead_letters: takes what must not start.
        claims: knows what has started.
        logs: write down that a request may start, or return False; then it waits here,
            unacknowledged.
        later: calls something in so many seconds.
    """

    def __init__(
        self,
        receipts: Source,
        mover: Mover,
        dead_letters: DeadLetters,
        claims: Claims,
        logs: Sequence[Callable[[Any], bool]] = (),
        later: Callable[[float, Callable[[], object]], object] = lambda seconds, call: None,
    ) -> None:
        self._receipts = receipts
        self._mover = mover
        self._dead_letters = dead_letters
        self._claims = claims
        self._logs = logs
        self._later = later

    def admits(self, request: Any) -> bool:
        """Say whether a request may start now; if not, see to what becomes of its message."""
        policy = policy_of(request.task)
        if policy is Policy.REPEATABLE:
            return True
        delivery, work, owner = self._claims.judge(request)
        request.message.claim(work)
        action = disposition(delivery, policy)
        starts = action is Action.RUN or action is Action.ACKNOWLEDGE_THEN_RUN
        if starts and not all(log(request) for log in self._logs):
            self._claims.give_up(work)
            self._put_off(request)
            return False
        if action is Action.RUN:
            return True
        if action is Action.ACKNOWLEDGE_THEN_RUN:
            return self.acknowledged(request)
        if action is Action.MARK:
            self._mark(request, owner or True)
        else:
            twice = delivery is Delivery.CLAIMED and not is_of(owner, str(request.id))
            self._dead_letters.dead_letter(request.message, DUPLICATE if twice else REDELIVERED)
            request.send_event("task-rejected", requeue=False)
        return False

    def _put_off(self, request: Any) -> None:
        """Keep a message, unacknowledged, as one with an ETA is: others pass it till it comes.

        If the worker stops, or that lasts for long, it goes back to its queue.
        """
        message = request.message
        with suppress(Exception):  # of a lost connection, which whoever uses it next will hear of
            message.feed.aside.put(message, message.feed.room.parked < _HELD, "later")
        self._later(_RETRY, partial(_come_due, request))

    def _mark(self, request: Any, mark: str | bool) -> None:
        """Give a message back with a mark; if that is not taken now, it waits as for the log."""
        try:
            self._mover.give_back(request.message, {STRICT: mark})
        except Exception as exc:  # noqa: BLE001 - whatever it is, it must not start
            logger.warning("Not started: task %s could not be given back yet: %r", request, exc)
            self._put_off(request)

    def acknowledged(self, request: Any) -> bool:
        """Acknowledge a message before its task starts, once; if that fails, it must not start.

        It is written when all that are about to start are; see `launcher`.
        """
        message = request.message
        try:
            self._receipts.acknowledge(message)
            if request.task.confirm:
                self._receipts.flush()
                self._receipts.confirm(message)
        except NotHeldError as exc:
            logger.warning("Not started: task %s[%s]: %s", request.name, request.id, exc)
            self._claims.give_up(message.claimed)
            return False
        except Exception as exc:  # noqa: BLE001 - any doubt about it: do not start
            self.not_acknowledged(request, exc)
            return False
        return _acknowledged(request)

    def acknowledged_early(self, request: Any) -> bool:
        """Acknowledge a message whose task may start twice; say whether it is to start.

        In doubt it is: the broker may have forgotten it, and nobody else would start it.
        """
        try:
            request.message.ack()
        except RecoverableConnectionError as exc:  # py-amqp has written nothing
            self.not_acknowledged(request, exc)
            return False
        except Exception as exc:  # noqa: BLE001 - whatever it is, the task can be started
            logger.warning(
                "Task %s[%s] of queue %s starts, but may start again: its acknowledgement may not"
                " have arrived: %r",
                request.name,
                request.id,
                request.message.feed.name,
                exc,
            )
            return True  # Celery acknowledges it once more
        return _acknowledged(request)

    def not_acknowledged(self, request: Any, exc: Exception) -> None:
        """Say that a task does not start; the broker delivers its message again."""
        logger.error(
            "Not started: task %s[%s] of queue %s could not be acknowledged. The broker delivers it"
            " again when the connection is closed",
            request.name,
            request.id,
            request.message.feed.name,
            exc_info=exc,
        )
        self._claims.give_up(request.message.claimed)


def _acknowledged(request: Any) -> bool:
    """Have Celery not acknowledge it once more."""
    request.acknowledged = True
    return True


def _come_due(request: Any) -> None:
    message = request.message
    if not (message.feed.dead or message.acknowledged):
        message.feed.aside.due(message, request)
