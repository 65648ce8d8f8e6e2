"""What is published, and when: a backlog of newsletters, and now and then a password mail.

Each kind of task has a queue of its own, which is what Celery's documentation advises, and both
workers consume both queues. So what is compared is not routing, but what a worker does with two
queues. One queue for everything would be worse for the mails: they would wait for the whole
backlog.

Celery's own worker fetches as many messages as its prefetch multiplier, 4, times its slots, apart
from those that run. While newsletters are waiting, most of these are newsletters, and a mail that
arrives stands behind them: up to four rounds of newsletters, whatever the number of slots. A fair
worker chooses when a slot is free; a mail waits for that.

So it is on RabbitMQ and Redis with prefork, Celery's default pool, and with threads. On the
in-memory broker, which has no event loop, Celery's worker does not fetch while all processes of a
prefork pool are at work: so the demo's pool is threads, with which it does there what it does
elsewhere.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import NamedTuple

INTERACTIVE, BULK = "interactive", "bulk"
QUANTA = {INTERACTIVE: 10, BULK: 1}  # with a bulk quantum of 4 it would be served four in a row

TAKES = {INTERACTIVE: 0.01, BULK: 0.2}  # seconds
_EVERY = 0.15  # seconds from one mail to the next, in the mean
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Scenario:
    """One run's messages. They have numbers: first the newsletters, then the mails.

    Attributes:
        seconds: for which mails are published.
        slots: tasks that the worker runs at once.
    """

    seconds: float
    slots: int

    @property
    def newsletters(self) -> int:
        """The backlog: twice what can be worked off, so that it lasts to the end."""
        return 2 * self.slots * math.ceil((self.seconds + 1) / TAKES[BULK])

    @property
    def times(self) -> list[float]:
        """When the mails are published, in seconds after the worker has begun to consume.

        Not quite regularly: the multiples of the golden ratio, mod 1, spread the mails evenly over
        the time that a newsletter takes.
        """
        mails = math.floor(self.seconds / _EVERY)
        return [_EVERY * (number + number * _GOLDEN % 1) for number in range(1, mails + 1)]


class Record(NamedTuple):
    """What the worker process has noted.

    Attributes:
        is_start: whether a task has started; else a message is about to be published.
        number: the message's.
        at: seconds of the machine's monotonic clock.
    """

    is_start: bool
    number: int
    at: float


class Wait(NamedTuple):
    """One message: when it was published, and when its task started, by the same clock."""

    published: float
    started: float


class Waits:
    """Those of one kind of message, in the order of their starts.

    Arguments:
        records: of such messages.

    Attributes:
        published: how many messages were published; the others have not started yet.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        published = {number: at for is_start, number, at in records if not is_start}
        self.published = len(published)
        self.ended = [Wait(published[number], at) for is_start, number, at in records if is_start]
        self.seconds = [wait.started - wait.published for wait in self.ended]

    @property
    def median(self) -> float:
        """Half of them waited longer."""
        return median(self.seconds)

    @property
    def most(self) -> float:
        """The 95 % quantile: one in twenty waited longer. Linear between two of them."""
        each = self.seconds
        return quantiles(each, n=20, method="inclusive")[-1] if len(each) > 1 else each[0]


class Run:
    """What one worker did, as far as it has come.

    Arguments:
        fair: whether the worker is a fair one.
        records: what it has noted.
    """

    def __init__(self, scenario: Scenario, fair: bool, records: Sequence[Record] = ()) -> None:
        self.scenario = scenario
        self.fair = fair
        self.records = records
        self.worker = "a fair worker" if fair else "Celery's own worker"
        self.mails = Waits([each for each in records if each.number >= scenario.newsletters])
        self.newsletters = Waits([each for each in records if each.number < scenario.newsletters])

    @property
    def complete(self) -> bool:
        """Whether all mails have started."""
        return len(self.mails.ended) == len(self.scenario.times)

    @property
    def begin(self) -> float:
        """When the first mail was published."""
        return min(wait.published for wait in self.mails.ended)

    @property
    def seconds(self) -> float:
        """From the first task's start to the last one's."""
        starts = [record.at for record in self.records if record.is_start]
        return starts[-1] - starts[0] if starts else 0.0

    @property
    def meanwhile(self) -> int:
        """Newsletters that started while mails were published."""
        begin, end = self.begin, self.begin + self.scenario.seconds
        return sum(begin <= wait.started < end for wait in self.newsletters.ended)
