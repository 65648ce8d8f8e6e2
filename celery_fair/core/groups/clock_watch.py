"""Whether another machine's clock runs as ours does, or has stepped.

A lease that ended while both ran alike has run out. One that ended by a step has not: whoever
has it is alive, perhaps, and will renew it as soon as it sees the new time. The same holds for one
that had ended before we first looked. Such a lease is *in doubt* for a while, and counts meanwhile.

The other clock was read between two looks at ours, so its lead is known to within their distance.
The least upper bound is remembered; a lead that is larger by more than the tolerance is a step, or
the drift of a day, which costs no more than a moment of doubt.
"""

import math


class ClockWatch:
    """Of one clock.

    Arguments:
        doubt: seconds for which leases are in doubt, by our clock.
    """

    def __init__(self, doubt: float) -> None:
        self._doubt = doubt
        self._lead = -math.inf
        self._began = -math.inf
        self._sure_at = -math.inf

    def judges_from(self, shown: float, asked: float, answered: float) -> float:
        """Return the time of that clock since which leases may have run out.

        Arguments:
            shown: what it showed, in seconds, at some time between these two of ours:
            asked: the first.
            answered: the second.
        """
        if shown - answered > self._lead + self._doubt / 2:
            self._lead = shown - asked
            self._began, self._sure_at = shown, answered + self._doubt
        self._lead = min(self._lead, shown - asked)
        return self._began if answered < self._sure_at else -math.inf
