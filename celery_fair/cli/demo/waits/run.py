"""How long messages waited, from their publishing to the start of their tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median, quantiles
from typing import NamedTuple

from celery_fair.cli.demo import demonstration
from celery_fair.cli.demo.waits.scenario import Scenario

__all__ = ["Run", "Wait", "Waits"]


class Wait(NamedTuple):
    """One message: when it was published, and when its task started, by the same clock."""

    published: float
    started: float

    @property
    def seconds(self) -> float:
        """From the one to the other."""
        return self.started - self.published


@dataclass(frozen=True)
class Waits:
    """Those of one kind of message in one run, in the order of their starts.

    Attributes:
        published: how many messages were published; the others have not started yet.
    """

    published: int
    ended: Sequence[Wait]

    @cached_property
    def seconds(self) -> list[float]:
        """How long each waited."""
        return [wait.seconds for wait in self.ended]

    @property
    def median(self) -> float:
        """Half of them waited longer."""
        return median(self.seconds)

    @property
    def most(self) -> float:
        """The 95 % quantile: one in twenty waited longer. Linear between two of them."""
        each = self.seconds
        return quantiles(each, n=20, method="inclusive")[-1] if len(each) > 1 else each[0]


@dataclass(frozen=True)
class Run(demonstration.Run):
    """What one worker did; records have the number of their message."""

    work: Scenario

    @property
    def worker(self) -> str:
        """Its name in a sentence."""
        return "a fair worker" if self.fair else "Celery's own worker"

    @cached_property
    def mails(self) -> Waits:
        """The password mails."""
        return self._waits(mails=True)

    @cached_property
    def newsletters(self) -> Waits:
        """The bulk work."""
        return self._waits(mails=False)

    @property
    def complete(self) -> bool:
        """Whether all mails have started."""
        return len(self.mails.ended) == len(self.work.times)

    @cached_property
    def begin(self) -> float:
        """When the first mail was published."""
        return min(wait.published for wait in self.mails.ended)

    @property
    def meanwhile(self) -> int:
        """Newsletters that started while mails were published."""
        end = self.begin + self.work.seconds
        return sum(self.begin <= wait.started < end for wait in self.newsletters.ended)

    def _waits(self, mails: bool) -> Waits:
        published = {n: when for n, when in self.published if self.work.is_mail(n) is mails}
        ended = [Wait(published[n], when) for n, when in self.started if n in published]
        return Waits(len(published), ended)
