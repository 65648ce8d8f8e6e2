"""Lanes that keys share, where one that is to wait for its cap or its leash stands before others.

Its messages are moved to a *spare* lane, which is kept for such tenants alone, one for each: all
workers use the same, as the store says which. So whoever is behind it comes to the front. That is
done beside what starts, in a tenth of the time, or all of it if nothing else may start.

Keys share lanes if there may be no more of them. Two tenants may get into one spare lane, if that
was another's until a moment ago. It is known once both one's messages have come from it; then the
one that is to wait gets another.
"""

from collections.abc import Callable
from itertools import islice
from time import monotonic

from celery_fair.core.tags import Tags
from celery_fair.worker.queues.keyed.known_lanes import KnownLanes
from celery_fair.worker.queues.keyed.lane_watch import LaneWatch
from celery_fair.worker.queues.keyed.rules import QueueRules

__all__ = ["SharedLanes"]

_EVERY, _AT_ONCE = 0.05, 8
"""Seconds between two looks at lanes that could be looked into, and how many are then."""

_SAME = 1.0
"""Seconds for which a tenant's spare lane is not asked for again."""

_REST = 9
"""How many times as long as something was moved others are served, before more is."""


class SharedLanes:
    """Of one queue.

    Arguments:
        known: its lanes.
        watch: knows which are empty.
        tags: those of tenants.
        rules: say which spare lane is whose.
        reopen: takes note that it is not known any more whose message is next in a lane.
    """

    def __init__(
        self,
        known: KnownLanes,
        watch: LaneWatch,
        tags: Tags,
        rules: QueueRules,
        reopen: Callable[[int], object],
    ) -> None:
        self._known = known
        self._watch = watch
        self._tags = tags
        self._rules = rules
        self._reopen = reopen
        self._covered: set[int] = set()  # whose first message is of one that is to wait
        self._spares: dict[str, tuple[int, float]] = {}  # and until when that is so
        self._owners: dict[int, str] = {}
        self._began = self._look_at = 0.0
        self._rests_until = 0.0

    def hold(self, tenant: str) -> None:
        """A tenant is to wait; who shares lanes with it is not."""
        self._covered.update(filter(self._is_shared, self._known.lanes_of(tenant)))

    def look(self) -> None:
        """Let those be looked into whose first message can be moved."""
        if not self._covered or monotonic() < self._look_at:
            return
        self._look_at = monotonic() + _EVERY
        for number in list(islice(self._covered, _AT_ONCE)):
            key = self._known.key_of(number)
            if key is None or not self._tags.holds(key[0]):
                self._covered.discard(number)
            elif self._spare_of(key[0]) is None:
                break  # nor has another, for now
            else:
                self._covered.discard(number)
                self._reopen(number)

    @property
    def rest(self) -> bool:
        """Whether others have their turn now."""
        return monotonic() < self._rests_until

    def place_for(self, tenant: str, number: int) -> int:
        """Return the lane that a message goes to that came from this one, and is to wait."""
        self._began = monotonic()
        if not self._is_shared(number):
            return number
        if self._rules_say(tenant) == number:  # and others' messages have come from it
            self._forget(number)
        spare = self._spare_of(tenant)
        return number if spare is None else spare

    def moved(self, number: int) -> None:
        """A message that came from this lane is in another now."""
        now = monotonic()
        self._rests_until = now + _REST * (now - self._began)
        self._covered.discard(number)
        self._reopen(number)

    def nothing_else(self, now: float) -> bool:
        """Nothing else may start: go on with it; return whether there is something to be moved."""
        goes_on = now < self._rests_until
        self._rests_until = 0.0
        return goes_on

    def ran_out(self, number: int) -> None:
        """A lane is empty."""
        self._covered.discard(number)
        if self._watch.is_spare(number):
            self._forget(number)

    def _is_shared(self, number: int) -> bool:
        if self._watch.is_spare(number):
            return self._known.is_shared(number)
        return self._watch.may_be_shared(number)

    def _spare_of(self, tenant: str) -> int | None:
        """Return a tenant's own lane for what is to wait; None while there is none."""
        spare = self._rules_say(tenant)
        if spare is not None:
            return spare
        offered = self._watch.spare_for(self._known.depths, len(self._covered) or 1)
        if offered is None:
            return None
        spare = self._rules.spare(tenant, offered)
        if spare is not None and spare != offered:
            self._watch.spared(offered)
        return self._remember(tenant, spare)

    def _rules_say(self, tenant: str) -> int | None:
        """Return its lane, as all workers have it; as it was a moment ago."""
        spare, until = self._spares.get(tenant, (None, 0.0))
        if monotonic() < until:
            return spare
        return self._remember(tenant, self._rules.spare(tenant))

    def _remember(self, tenant: str, spare: int | None) -> int | None:
        before, _ = self._spares.pop(tenant, (None, 0.0))
        if before is not None:
            self._owners.pop(before, None)
        if spare is not None:
            self._spares[tenant] = spare, monotonic() + _SAME
            self._owners[spare] = tenant
        return spare

    def _forget(self, number: int) -> None:
        """A spare lane is nobody's any more."""
        tenant = self._owners.pop(number, "")
        self._spares.pop(tenant, None)
        self._rules.spare(tenant, given_up=number)
