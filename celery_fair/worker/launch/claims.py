"""What is known of a delivery, by the word of the broker and that of the ledger."""

import logging
from collections.abc import Mapping
from time import monotonic
from typing import Any

from celery_fair.brokers.redelivery import is_redelivered
from celery_fair.core.disposition import Delivery, proves_unstarted
from celery_fair.headers import LEDGER, PUBLISHED, STRICT
from celery_fair.ledger import Claim, Ledger, LedgerUnreachableError, fingerprint

__all__ = ["Claims", "may_be_claimed_elsewhere"]

logger = logging.getLogger(__name__)

_RETRY = 1.0
_PATIENCE = 20  # times as long as an attempt took: the loop does not stand still for a silent host


class Claims:
    """Claims work before it starts.

    While the ledger is away, messages are marked, so that later no ledger takes the want of a claim
    for a proof: of a message with the mark the broker's word is believed alone, as without a
    ledger. When it is back, its epoch is renewed, for the sake of a message whose marked copy is
    on its way while the broker delivers it again.

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
        self._away = False
        self._ask_at = 0.0

    def judge(self, request: Any) -> tuple[Delivery, str, str]:
        """Claim a request's work.

        Returns:
            What is known of the delivery, what names the work, and who has claimed it already.
            Without a ledger, or its answer, the latter is empty.

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
        work = request.task.work(request)
        marked = bool((message.headers or {}).get(STRICT))
        claim = self._claim(work, str(request.id), redelivered)
        if claim is None:
            return (by_broker if redelivered or marked else Delivery.UNKNOWN), work, ""
        if claim.owner is not None:
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

    def _claim(self, work: str, owner: str, redelivered: bool) -> Claim | None:
        asked = monotonic()
        if self._ledger is None or asked < self._ask_at:
            return None
        try:
            if self._away:
                self._ledger.renew()
            claim = self._ledger.claim(work, owner, redelivered)
        except LedgerUnreachableError as exc:
            self._ask_at = monotonic() + max(_RETRY, _PATIENCE * (monotonic() - asked))
            if not self._away:
                self._away = True
                logger.error(  # noqa: TRY400 - the client's text says it all
                    "The ledger cannot be reached (%s). Until it is back, and for the messages that"
                    " come by meanwhile, whatever was delivered before is dead-lettered",
                    exc,
                )
            return None
        if self._away:
            self._away = False
            logger.warning("The ledger is back")
        return claim

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
        if self._claim("celery-fair", "", False) is not None:
            self.give_up("celery-fair")

    def close(self) -> None:
        """Leave nothing open."""
        if self._ledger is not None:
            self._ledger.close()


def may_be_claimed_elsewhere(headers: Mapping[str, Any] | None, name: str | None) -> bool:
    """Say whether another ledger than the one of this name, or None, may be asked about a message.

    None is asked about one that is marked.
    """
    headers = headers or {}
    return headers.get(LEDGER, name) != name and not headers.get(STRICT)
