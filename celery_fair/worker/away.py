"""A server that is asked amid the worker's work, and may be away."""

import math
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

_T = TypeVar("_T")

_RETRY, _PATIENCE, _LONGEST = 1.0, 20, 40.0
"""Seconds until it is asked again, and times as long as an attempt took, but no longer than so many
seconds: the loop does not stand still for a silent host, nor is the time that greenlets, or other
processes, took from it the host's."""


class Away:
    """Knows whether it is.

    Arguments:
        lost: told, once, why it cannot be reached.
        back: told, once, that it can again.

    Attributes:
        until: when it is to be asked again, on the monotonic clock.
        is_so: whether the last attempt has failed.
    """

    def __init__(self, lost: Callable[[Exception], object], back: Callable[[], object]) -> None:
        self.until = -math.inf
        self.is_so = False
        self._lost, self._back = lost, back

    def asked(self, ask: Callable[[], _T], *errors: type[Exception]) -> _T | None:
        """Return its answer; None if there is none, or was none a moment ago.

        Arguments:
            errors: which say that it cannot be reached.
        """
        began = monotonic()
        if began < self.until:
            return None
        try:
            answer = ask()
        except errors as exc:
            now = monotonic()
            self.until = now + min(max(_RETRY, _PATIENCE * (now - began)), _LONGEST)
            if not self.is_so:
                self.is_so = True
                self._lost(exc)
            return None
        if self.is_so:
            self.is_so = False
            self._back()
        return answer
