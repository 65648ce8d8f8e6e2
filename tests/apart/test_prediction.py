"""What a replay predicts of workers from their log, and what their messages did wait.

The replay knows from the log alone when messages were published, for how long each ran, what each
start cost, which workers were there when, and what they shared their slots by. So nothing is said
to it by hand; but for one row, in which the log of a life with equal quanta is asked what other
quanta would have done, and the answer is compared with another life, that had those.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.apart.commands import AT_ONCE, ask
from tests.apart.lives import LIVES, live
from tests.brokers import RabbitMQ, RedisServer
from tests.workers import starting_workers

TOLERANCE = 0.10
LOOSE = 0.15
"""Of workers beside each other, whose windows the replay does not know, and of a life predicted by
another's log: neither keeps to `TOLERANCE` each time, and it is not known why."""
LEAST = 0.010
"""Seconds: a shorter error is none. Waits of few milliseconds are those of a loaded machine."""
ANOTHERS = "equal as quanta"

SUPPOSED = "as quanta: " + " ".join(
    f"equal-{queue}.quantum={quantum}"
    for queue, quantum in (("interactive", 4), ("reports", 2), ("bulk", 1))
)
"""What makes the life `equal` the one `quanta`."""


@dataclass(frozen=True)
class Row:
    """One of the table.

    Attributes:
        live, predicted: seconds waited, p50 and p95.
    """

    life: str
    queue: str
    live: tuple[float, float]
    predicted: tuple[float, float]

    @property
    def errors(self) -> tuple[float, ...]:
        return tuple(p / w - 1 for p, w in zip(self.predicted, self.live, strict=True))

    @property
    def good(self) -> bool:
        tolerance = LOOSE if self.life in ("two_workers", ANOTHERS) else TOLERANCE
        return all(
            abs(p - w) <= max(tolerance * w, LEAST)
            for p, w in zip(self.predicted, self.live, strict=True)
        )

    def __str__(self) -> str:
        p50, p95 = self.errors
        return (
            f"{self.life:<22} {self.queue:<14} {self.live[0]:8.3f} {p50:+7.1%}"
            f" {self.live[1]:8.3f} {p95:+7.1%}"
        )


@pytest.fixture(scope="module")
def logs(
    rabbitmq: RabbitMQ, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    """Of all lives whose costs are counted in the same way, one after the other, in one folder."""
    root = tmp_path_factory.mktemp("logs")
    for name, life in LIVES.items():
        folder = tmp_path_factory.mktemp(name)
        server = rabbitmq if life.broker == "rabbitmq" else redis_server
        with starting_workers(folder) as start:
            log = root / _costs(name)
            live(life.named(name), server.space(), start, log)
    return sorted(root.iterdir())


def _costs(life: str) -> str:
    """How a life's costs are counted, which is what its log is called."""
    named: str = LIVES[life].conf.get("fair_cost", "one")
    return named


def _waited(rows: list[dict[str, Any]], scenario: str | None = None) -> dict[str, Any]:
    return {
        row["queue"]: (row["p50"], row["p95"]) for row in rows if row.get("scenario") == scenario
    }


def _table(logs: list[Path]) -> list[Row]:
    commands: list[tuple[Any, ...]] = []
    for log in logs:
        warehouse = log.parent.parent / f"warehouse-{log.name}"
        commands += [("ingest", "--json", "-q", log, warehouse), ("waits", "--json", warehouse)]
        # A queue that a log does not have cannot be supposed to be otherwise.
        supposed_of = ("--scenario", SUPPOSED) if log.name == _costs("equal") else ()
        commands += [("whatif", "--json", "-q", warehouse, *supposed_of)]
    said = ask(AT_ONCE, *(word for command in commands for word in ("+", *command)))
    rows, lived, supposed = [], {}, {}
    for waits, found in zip(said[1::3], said[2::3], strict=True):
        lived |= _waited(waits)
        supposed |= _waited(found, "as quanta")
        predicted = _waited(found, "recorded")
        rows += [
            Row(*queue.split("-"), waited, predicted[queue])
            for queue, waited in sorted(_waited(waits).items())
        ]
    rows += [
        Row(ANOTHERS, queue, lived[f"quanta-{queue}"], supposed[f"equal-{queue}"])
        for queue in LIVES["quanta"].queues
    ]
    return rows


def test_waits_are_as_predicted(logs: list[Path]) -> None:
    rows = _table(logs)
    print(f"\n{'life':<22} {'queue':<14} {'p50, s':>8} {'error':>7} {'p95, s':>8} {'error':>7}")
    print(*rows, sep="\n")
    assert len({row.life for row in rows}) == len(LIVES) + 1
    bad = [str(row) for row in rows if not row.good]
    assert not bad, "\n".join(bad)
