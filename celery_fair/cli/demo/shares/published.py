"""The figures published for this workload, with 40,000 messages a queue and a stop at 200,000.

Their consumer sizes every queue's window alike. At 100 µs of work per task it is slower than the
broker, and the shares follow the quanta. At 1 µs it is faster, finds its buffers empty, and the
shares become those in which the broker refills them: equal.
"""

from dataclasses import dataclass

from celery_fair.cli.demo.shares.shares import Shares

__all__ = ["TABLES", "Table"]


@dataclass(frozen=True)
class Table:
    """One published table.

    Attributes:
        name: as it is called there.
        counts: messages consumed of each queue.
        rates: messages consumed per second of each queue.
    """

    name: str
    counts: tuple[int, ...]
    rates: tuple[float, ...]

    @property
    def shares(self) -> Shares:
        """The counts as shares: those compare, whatever the totals."""
        return Shares(self.counts)

    @property
    def rate(self) -> float:
        """Messages per second, of all queues together."""
        return sum(self.rates)


TABLES = {
    100: Table(
        "Table 1",
        (3741, 7377, 11031, 14556, 18195, 21828, 25408, 29024, 32605, 36250),
        (136.29, 268.76, 401.89, 530.31, 662.89, 795.25, 925.68, 1057.42, 1187.88, 1320.68),
    ),
    1: Table(
        "Table 2",
        (19546, 19323, 20445, 19750, 20075, 19780, 20040, 20227, 20643, 20188),
        (
            *(1970.96, 1948.47, 2061.61, 1991.53, 2024.30),
            *(1994.55, 2020.77, 2039.63, 2081.58, 2035.70),
        ),
    ),
}
"""By microseconds of work per task."""
