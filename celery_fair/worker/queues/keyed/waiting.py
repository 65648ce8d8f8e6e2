"""Which tenants may start nothing now: by their caps, their rates, or as somebody paused them."""

import math
from collections import deque
from contextlib import suppress
from time import monotonic

from celery_fair.core.tags import Tags
from celery_fair.worker.queues.keyed.rules import Permit, QueueRules

__all__ = ["WaitingTenants"]


class WaitingTenants:
    """Of one queue.

    Arguments:
        rules: what keys may.
        tags: the tenants', in which those that wait are held.
    """

    def __init__(self, rules: QueueRules, tags: Tags) -> None:
        self._rules = rules
        self._tags = tags
        self._until: dict[str, float] = {}  # when to ask again, on the monotonic clock
        self._freed: deque[str] = deque()

    def __bool__(self) -> bool:
        return bool(self._until)

    @property
    def have_room(self) -> bool:
        """Whether some may have: something of theirs has ended."""
        return bool(self._freed)

    def ask_at(self) -> float:
        """Return when to ask for one again; infinity if none waits."""
        return min(self._until.values(), default=math.inf)

    def ended(self, tenant: str) -> None:
        """Something of a tenant has ended; any thread may say so."""
        self._freed.append(tenant)

    def may(self, tenant: str) -> Permit | None:
        """Ask for a message's start; None if its tenant is to wait."""
        if tenant in self._until:
            return None
        answer = self._rules.may(tenant)
        if isinstance(answer, Permit):
            return answer
        self._until[tenant] = answer
        return None

    def hold(self, tenant: str) -> None:
        """It is not a tenant's turn as long as it waits."""
        with suppress(KeyError):  # it is held already
            self._tags.hold(tenant)

    def release(self) -> None:
        """Let those try again who have waited for long enough, or something of whom has ended."""
        while self._freed:
            self._until.pop(self._freed.popleft(), None)
        now = monotonic()
        for tenant in [tenant for tenant, until in self._until.items() if until <= now]:
            del self._until[tenant]
        for tenant in self._tags.held:
            if tenant not in self._until:
                self._tags.release(tenant)
