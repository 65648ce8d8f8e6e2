"""What is published and consumed: ten queues, each with more than its share can use up."""

from dataclasses import dataclass

__all__ = ["COST", "LEAST_MESSAGES", "QUANTA", "QUEUES", "ROUND", "Workload"]

QUEUES = tuple(f"p{number}" for number in range(10))
QUANTA = tuple(range(4, 44, 4))
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
    """

    messages: int
    work: int

    @property
    def published(self) -> int:
        """Messages on all queues together."""
        return self.messages * len(QUEUES)

    @property
    def stop(self) -> int:
        """Starts after which the run ends.

        At half of all messages every queue is backlogged still: the largest share, 40 of 220, of
        half of the total is 0.91 of what one queue has.
        """
        return self.published // 2

    @property
    def warm_up(self) -> int:
        """Starts that are left out of the shares, while windows fill and find their sizes."""
        return self.stop // 10
