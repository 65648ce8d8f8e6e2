"""What other workers served of the same keys, added to this worker's tags little by little.

Workers with tags of their own (see `celery_fair.core.tags`) give each key the same part of what
each of them serves. Who is ahead in one may be ahead in all by chance: with eight workers a key may
be eight messages ahead of another. So several times a second they tell each other what they have
served, and that counts as if it had been served here.

If all of it counted at once, each worker would make up for the same difference, and together they
would overshoot by as many times as there are workers. So each takes a part of what is outstanding
with every report: its own part of all that was served lately, and a quarter of that, as what it
does about it shows only in the reports after the next. A worker that has served nothing lately is
in nobody's way, and takes all of it; so does everyone of a key that has nothing waiting here.

A simulation (``tests/core/test_elsewhere.py``): 20 keys with backlogs and weights of 1 to 10, eight
workers; after 100 messages of the lightest key the largest error of a share is 4 % without reports,
and 1 to 2 % with them, whether a message takes a twentieth of a report's interval or three of them.
"""

from collections.abc import Iterable

from celery_fair.core.tags import TenantTags

__all__ = ["Elsewhere", "Key"]

Key = tuple[str, str]
"""A tenant, and a part of it."""

_GAIN = 0.25
"""How much of its own part of what is outstanding a worker counts with each report."""

_RECENT = 0.8
"""How much of what it knew before a report counts of what was served lately."""

_IDLE = 0.05
"""Messages with each report, lately, from which on a worker's own part is known."""

_NEGLIGIBLE = 0.01
"""Of what a key was served on average in a report: a rest that counts at once."""


class Elsewhere:
    """Of one queue.

    Arguments:
        tags: this worker's.
    """

    def __init__(self, tags: TenantTags) -> None:
        self._tags = tags
        self._outstanding: dict[Key, float] = {}
        self._messages, self._cost = 0, 0.0  # since the last report
        self._lately, self._here, self._there = 0.0, 0.0, 0.0

    @property
    def outstanding(self) -> dict[Key, float]:
        """What is not counted yet, by key."""
        return dict(self._outstanding)

    def served(self, charge: float) -> None:
        """A message is served here."""
        self._messages += 1
        self._cost += charge

    def reported(self, served: Iterable[tuple[Key, float]]) -> None:
        """Others have served this meanwhile: costs by key, below zero if it was less than told."""
        count, total = 0, 0.0
        for key, cost in served:
            self._outstanding[key] = self._outstanding.get(key, 0.0) + cost
            count, total = count + 1, total + cost
        self._lately = _RECENT * self._lately + self._messages
        self._here = _RECENT * self._here + self._cost
        self._there = _RECENT * self._there + total
        self._messages, self._cost = 0, 0.0
        self._count(self._part(), _NEGLIGIBLE * total / count if count else 0.0)

    def _part(self) -> float:
        if self._lately < _IDLE or self._here <= 0.0 or self._there <= 0.0:
            return 1.0
        return _GAIN * self._here / (self._here + self._there)

    def _count(self, part: float, negligible: float) -> None:
        for key, cost in list(self._outstanding.items()):
            some = cost * part
            if abs(cost - some) <= negligible or self._tags.tenants.tag(key[0]) is None:
                some = cost
            self._tags.served_elsewhere(*key, some)
            if some == cost:
                del self._outstanding[key]
            else:
                self._outstanding[key] = cost - some
