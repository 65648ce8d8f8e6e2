"""What is published and consumed: ten queues, each with more than its share can use up."""

from dataclasses import dataclass

__all__ = ["COST", "LEAST_MESSAGES", "QUANTA", "QUEUES", "ROUND", "TARGETS", "Workload"]

QUEUES = tuple(f"p{number}" for number in range(10))
QUANTA = tuple(range(4, 44, 4))
TARGETS = tuple(quantum / sum(QUANTA) for quantum in QUANTA)
COST = 4
ROUND = sum(QUANTA) // COST
"""Messages that one round of the scheduler serves of all queues together."""

LEAST_MESSAGES = 40
"""Messages per queue with which some three rounds are measured; with fewer, shares mean nothing."""


@dataclass(frozen=True)
class Workload:
    """One run's work.

    Attributes:
        messages: published to each queue.
        work: microseconds for which each task keeps a processor busy.
        stop: starts after which the run ends.
    """

    messages: int
    work: int
    stop: int

    @property
    def published(self) -> int:
        """Messages on all queues together."""
        return self.messages * len(QUEUES)

    @property
    def warm_up(self) -> int:
        """Starts that are left out of the shares, while windows fill and find their sizes."""
        return self.stop // 10

    @classmethod
    def of(cls, messages: int, work: int, stop: int | None) -> "Workload":
        """Return a workload of which something can be learnt, or raise `ValueError`.

        The last stop, and the default, is at half of all messages. Every queue is still backlogged
        then: the largest share, 40 of 220, of half of the total is 0.91 of what one queue has.
        """
        if messages < LEAST_MESSAGES:
            raise ValueError(
                f"with --messages {messages} a queue there is nothing to measure;"
                f" use {LEAST_MESSAGES} or more"
            )
        least, last = (each * len(QUEUES) // 2 for each in (LEAST_MESSAGES, messages))
        if stop is not None and not least <= stop <= last:
            raise ValueError(
                f"--stop {stop} is not from {least} (before that there is nothing to measure) to"
                f" {last} (after that a queue of --messages {messages} may be empty)"
            )
        return cls(messages, work, last if stop is None else stop)
