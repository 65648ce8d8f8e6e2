"""The figures published for this workload, with 40,000 messages a queue and a stop at 200,000.

Their consumer sizes every queue's window alike. At 100 µs of work per task it is slower than the
broker, and the shares follow the quanta. At 1 µs it is faster, finds its buffers empty, and the
shares become those in which the broker refills them: equal.
"""

from typing import NamedTuple

from celery_fair.cli.demo.shares.run import Shares

__all__ = ["TABLES", "Table"]


class Table(NamedTuple):
    """One published table.

    Attributes:
        name: as it is called there.
        counts: messages consumed of each queue.
        rate: messages consumed per second, of all queues together.
    """

    name: str
    counts: tuple[int, ...]
    rate: float

    @property
    def shares(self) -> Shares:
        """The counts as shares: those compare, whatever the totals."""
        return Shares(self.counts)


TABLES = {
    100: Table(
        "Table 1", (3741, 7377, 11031, 14556, 18195, 21828, 25408, 29024, 32605, 36250), 7287.05
    ),
    1: Table(
        "Table 2",
        (19546, 19323, 20445, 19750, 20075, 19780, 20040, 20227, 20643, 20188),
        20169.10,
    ),
}
"""By microseconds of work per task."""
