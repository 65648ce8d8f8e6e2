"""What a replay predicts of workers from their log, and what their messages did wait.

The replay knows from the log alone when messages were published, for how long each ran, what each
start cost, which workers were there when, and what they shared their slots by. So nothing is said
to it by hand; but for one row, in which the log of a life with equal quanta is asked what other
quanta would have done, and the answer is compared with another life, that had those.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.apart.commands import AT_ONCE, ask
from tests.apart.lives import LIVES, live
from tests.brokers import RabbitMQ, RedisServer
from tests.workers import starting_workers

TOLERANCE = 0.10
LEAST = 0.010
"""Seconds: a shorter error is none. Waits of few milliseconds are those of a loaded machine."""

SUPPOSED = "interactive.quantum=4 reports.quantum=2 bulk.quantum=1"
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
        return all(
            abs(p - w) <= max(TOLERANCE * w, LEAST)
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
) -> Iterator[dict[str, Path]]:
    """Where each life's log is."""
    made = {}
    for name, life in LIVES.items():
        folder = tmp_path_factory.mktemp(name.replace(" ", "-"))
        server = rabbitmq if life.broker == "rabbitmq" else redis_server
        with starting_workers(folder) as start:
            made[name] = live(life, server.space(), start, folder)
    yield made
    for log in made.values():
        shutil.rmtree(log)


def _waited(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    return {row["queue"]: (row["p50"], row["p95"]) for row in rows}


def _table(logs: dict[str, Path]) -> list[Row]:
    commands: list[tuple[Any, ...]] = []
    for log in logs.values():
        warehouse = log.parent / "warehouse"
        commands += [("ingest", "--json", "-q", log, warehouse), ("waits", "--json", warehouse)]
        commands += [("whatif", "--json", "-q", warehouse)]
    equal = logs["equal"].parent / "warehouse"
    commands += [("whatif", "--json", "-q", equal, "--base", SUPPOSED)]
    said = ask(AT_ONCE, *(word for command in commands for word in ("+", *command)))
    waits = dict(zip(logs, map(_waited, said[1::3]), strict=False))
    found = dict(zip(logs, map(_waited, said[2::3]), strict=False))
    cases = [(name, waits[name], found[name]) for name in logs]
    cases.append(("equal, as if quanta", waits["quanta"], _waited(said[-1])))
    return [
        Row(name, queue, lived, predicted[queue])
        for name, all_lived, predicted in cases
        for queue, lived in sorted(all_lived.items())
    ]


def test_waits_are_as_predicted(logs: dict[str, Path]) -> None:
    rows = _table(logs)
    print(f"\n{'life':<22} {'queue':<14} {'p50, s':>8} {'error':>7} {'p95, s':>8} {'error':>7}")
    print(*rows, sep="\n")
    assert len({row.life for row in rows}) == len(LIVES) + 1
    bad = [str(row) for row in rows if not row.good]
    assert not bad, "\n".join(bad)
