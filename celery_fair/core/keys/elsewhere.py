"""What other workers served of the same keys, added to this worker's tags little by little.

Workers with tags of their own (see `core.keys.tags`) give each key the same part of what
each of them serves. Who is ahead in one may be ahead in all by chance: with eight workers a key may
be eight messages ahead of another. So several times a second they tell each other what they have
served, and that counts as if it had been served here.

*In common.* What all keys that wait here had elsewhere, by their weights, sets none of them back:
tags and virtual time would all grow by it, and so none does. Only what a key had beyond that
counts. A key is compared if it has waited here since the report before: who comes later had no
part in what was served by then, and is not owed any.

*Little by little.* If all of that counted at once, each worker would make up for the same
difference, and together they would overshoot by as many times as there are workers. So each takes a
part of what is outstanding with every report: its own part of all that was served lately, and a
quarter of that, as what it does about it shows only in the reports after the next. A worker that
has served nothing lately is in nobody's way, and takes all of it.

*Who has nothing here* begins that much later, when it has; unless all who wait had as much.

A simulation (``tests/keys/test_simulated_shares.py``): 20 keys with backlogs and weights of 1 to
10, eight workers; after 100 messages of the lightest key the largest error of a share is 4 %
without reports, and 1 to 3 % with them, whether a message takes a twentieth of a report's interval
or two of them.
"""

from collections.abc import Callable, Mapping

from celery_fair.core.keys.tags import Tags

_GAIN = 0.25
"""How much of its own part of what is outstanding a worker counts with each report."""

_RECENT = 0.8
"""How much of what it knew before a report counts of what was served lately."""

_IDLE = 0.05
"""Messages with each report, lately, from which on a worker's own part is known."""

_LEAST = 1e-9
"""Of a cost."""

_NOTHING: Mapping[str, float] = {}

_NEGLIGIBLE = 0.01
"""Of what a key was served on average in a report: a rest that counts at once."""


class Elsewhere:
    """Of one queue.

    Arguments:
        tags: this worker's.
        is_nobodys: whether a key stands for something else, of which nobody tells anything.

    Attributes:
        outstanding: what is not counted yet, by key.
    """

    def __init__(self, tags: Tags, is_nobodys: Callable[[str], bool] = lambda _: False) -> None:
        self._tags = tags
        self._is_nobodys = is_nobodys
        self.outstanding: dict[str, float] = {}
        self._waited: frozenset[str] = frozenset()  # when the last report came
        self._messages, self._cost = 0, 0.0  # since then
        self._lately, self._here, self._there = 0.0, 0.0, 0.0

    def served(self, charge: float) -> None:
        """A message is served here."""
        self._messages += 1
        self._cost += charge

    def settled(self, difference: float) -> None:
        """One took so much more."""
        self._cost += difference

    def reported(self, costs: Mapping[str, float], before: Mapping[str, float] = _NOTHING) -> None:
        """Others have served this meanwhile, by key; below zero if it was less than they told.

        Arguments:
            before: what they had served while nothing could be done here, for long perhaps: it
                counts for those alone who have waited.
        """
        tags = self._tags
        part = self._part(sum(cost for cost in costs.values() if cost > 0.0))
        waiting = frozenset(key for key in tags.waiting if not self._is_nobodys(key))
        compared, self._waited = self._waited & waiting, waiting
        for some in (before, costs):
            for key, cost in some.items():
                if key in tags:
                    self.outstanding[key] = self.outstanding.get(key, 0.0) + cost
        if not compared:  # nobody could be behind
            there = self.outstanding.keys() & waiting
            self.outstanding = {key: self.outstanding[key] for key in there}
            return
        common = self._common(compared)
        for key, cost in costs.items():
            if key not in tags:
                tags.settle(key, tags.virtual, cost)
        if common > 0.0:
            tags.pass_by(common)
        for key, cost in self.outstanding.items():
            self.outstanding[key] = self._beyond(key, cost, common)
        self._count(part, _NEGLIGIBLE * sum(map(abs, costs.values())) / max(1, len(costs)))

    def _part(self, there: float) -> float:
        """Return how much of what is outstanding counts now."""
        self._lately = _RECENT * self._lately + self._messages
        self._here = _RECENT * self._here + max(0.0, self._cost)
        self._there = _RECENT * self._there + there
        self._messages, self._cost = 0, 0.0
        if self._lately < _IDLE:
            return 1.0
        return _GAIN * self._here / max(self._here + self._there, _LEAST)

    def _common(self, compared: frozenset[str]) -> float:
        """Return what each of them had, by its weight."""
        had = (self.outstanding.get(key, 0.0) / self._tags.weight(key) for key in compared)
        return max(0.0, min(had))

    def _beyond(self, key: str, cost: float, common: float) -> float:
        """Return what a key had besides, or how much less it took than had been told."""
        return min(cost, max(0.0, cost - common * self._tags.weight(key)))

    def _count(self, part: float, negligible: float) -> None:
        for key, cost in list(self.outstanding.items()):
            some = cost * part
            if abs(cost - some) <= negligible or key not in self._tags:
                some = cost
            self._tags.settle(key, self._tags.virtual, some)
            if some == cost:
                del self.outstanding[key]
            else:
                self.outstanding[key] = cost - some
