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
from dataclasses import dataclass

__all__ = ["BULK", "INTERACTIVE", "MAIL_TAKES", "NEWSLETTER_TAKES", "QUANTA", "Scenario"]

INTERACTIVE, BULK = "interactive", "bulk"
QUANTA = {INTERACTIVE: 10, BULK: 1}  # with a bulk quantum of 4 it would be served four in a row

MAIL_TAKES, NEWSLETTER_TAKES = 0.01, 0.2  # seconds
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
        return 2 * self.slots * math.ceil((self.seconds + 1) / NEWSLETTER_TAKES)

    @property
    def times(self) -> list[float]:
        """When the mails are published, in seconds after the worker has begun to consume.

        Not quite regularly: the multiples of the golden ratio, mod 1, spread the mails evenly over
        the time that a newsletter takes.
        """
        mails = math.floor(self.seconds / _EVERY)
        return [_EVERY * (number + number * _GOLDEN % 1) for number in range(1, mails + 1)]

    def is_mail(self, number: int) -> bool:
        """Return whether the message with this number is a password mail."""
        return number >= self.newsletters
