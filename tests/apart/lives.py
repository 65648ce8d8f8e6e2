"""Lives of workers that a replay is to predict: what is published, and under which settings."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

from celery_fair.headers import FAIR_KEY, PUBLISHED
from tests.brokers import Space
from tests.waiting import wait_equal
from tests.workers import StartWorker, WorkerProcess

__all__ = ["LIVES", "Flow", "Life", "live"]


@dataclass(frozen=True)
class Flow:
    """What is published to one queue.

    Attributes:
        count: of messages.
        shortest, longest: seconds of work, drawn evenly between them.
        within: seconds in which they are published.
        key: whose they are.
    """

    count: int
    shortest: float
    longest: float
    within: float = 8.0
    key: str | None = None


@dataclass(frozen=True)
class Life:
    """One case.

    Attributes:
        flows: pairs of queue and what is published to it.
        conf: settings besides those of the log.
        stops: seconds after the first message at which the first worker is stopped, and another
            one started; empty: it is not.
    """

    flows: Sequence[tuple[str, Flow]]
    conf: Mapping[str, Any]
    broker: str = "rabbitmq"
    pool: str = "threads"
    workers: int = 1
    slots: int = 2
    stops: tuple[float, ...] = ()

    @property
    def queues(self) -> list[str]:
        return sorted({queue for queue, _ in self.flows})

    def named(self, name: str) -> Life:
        """Return it with queues that no other life has."""
        conf = {
            setting: {f"{name}-{queue}": options for queue, options in value.items()}
            if isinstance(value, dict)
            else value
            for setting, value in self.conf.items()
        }
        return replace(
            self, conf=conf, flows=[(f"{name}-{queue}", flow) for queue, flow in self.flows]
        )


@dataclass(frozen=True)
class Planned:
    """A message that is to be published."""

    after: float
    queue: str
    work: float
    key: str | None = field(default=None, compare=False)


def planned(life: Life) -> list[Planned]:
    """Return its messages, in the order of publication; always the same."""
    draw = random.Random(11)
    found = [
        Planned(
            draw.uniform(0, flow.within), queue, draw.uniform(flow.shortest, flow.longest), flow.key
        )
        for queue, flow in life.flows
        for _ in range(flow.count)
    ]
    return sorted(found, key=lambda message: message.after)


def live(life: Life, space: Space, start: StartWorker, log: Path) -> None:
    """Let workers do all of it."""
    conf = {"fair_event_log": str(log), **life.conf}

    def begin() -> WorkerProcess:
        return start(space, pool=life.pool, concurrency=life.slots, queues=life.queues, conf=conf)

    workers = [begin() for _ in range(life.workers)]
    client = workers[0].client
    done = workers[0].records.finished
    before = len(done.read())
    messages = planned(life)
    with client.producer_or_acquire() as producer:
        first = time.monotonic()
        stops = list(life.stops)
        for number, message in enumerate(messages):
            if stops and message.after >= stops[0]:
                if len(stops) % 2 == len(life.stops) % 2:
                    workers.pop(0).sigterm()
                else:
                    workers.append(begin())
                stops.pop(0)
            Event().wait(max(0.0, first + message.after - time.monotonic()))
            headers = {PUBLISHED: time.time()}
            if message.key is not None:
                headers[FAIR_KEY] = message.key
            client.send_task(
                "nap",
                (number, message.work),
                queue=message.queue,
                headers=headers,
                producer=producer,
            )
    wait_equal(lambda: len(done.read()) - before, len(messages), timeout=300)
    for worker in workers:
        assert worker.stop() == 0


def _quanta(**quanta: int) -> dict[str, Any]:
    return {"fair_queues": {queue: {"quantum": quantum} for queue, quantum in quanta.items()}}


def _options(**queues: dict[str, Any]) -> dict[str, Any]:
    return {"fair_queues": queues}


_THREE = [(queue, Flow(110, 0.03, 0.17)) for queue in ("bulk", "interactive", "reports")]
_FOUR_TWO_ONE = _quanta(interactive=4, reports=2, bulk=1)
_EQUAL = _quanta(interactive=1, reports=1, bulk=1)
_TWO = [("bulk", Flow(120, 0.03, 0.17)), ("interactive", Flow(120, 0.03, 0.17))]

LIVES = {
    "equal": Life(_THREE, _EQUAL),
    "quanta": Life(_THREE, _FOUR_TWO_ONE),
    "runtime": Life(
        [("long", Flow(60, 0.1, 0.3)), ("short", Flow(300, 0.01, 0.05))],
        {**_quanta(long=1, short=1), "fair_cost": "runtime"},
    ),
    "leash": Life(
        [("leashed", Flow(110, 0.03, 0.17)), ("beside", Flow(160, 0.03, 0.17))],
        _options(leashed={"quantum": 1, "rate": "8/s", "burst": 4}, beside={"quantum": 1}),
    ),
    "cap": Life(
        [("capped", Flow(110, 0.03, 0.17)), ("beside", Flow(160, 0.03, 0.17))],
        _options(capped={"quantum": 4, "max_in_flight": 1}, beside={"quantum": 1}),
    ),
    "strict": Life(
        [("urgent", Flow(70, 0.05, 0.2)), ("bulk", Flow(120, 0.03, 0.17))],
        {
            **_options(urgent={"quantum": 1, "class": 1}, bulk={"quantum": 1}),
            "fair_policy": "strict",
        },
    ),
    "keys": Life(
        [
            ("jobs", Flow(160, 0.03, 0.17, key="flood")),
            ("jobs", Flow(60, 0.03, 0.17, key="other")),
            ("jobs", Flow(20, 0.03, 0.17, key="quiet")),
        ],
        {"fair_keys": {"jobs": {"keys": {"other": {"weight": 2}}}}},
        broker="redis",
    ),
    "two_workers": Life(_THREE, _FOUR_TWO_ONE, workers=2, slots=1),
    "redis": Life(_THREE, _FOUR_TWO_ONE, broker="redis"),
    "prefork": Life(_THREE, _FOUR_TWO_ONE, pool="prefork"),
    "stopped": Life(_TWO, _quanta(interactive=4, bulk=1), stops=(2.0, 6.0)),
    "short": Life(
        [("bulk", Flow(1500, 0.002, 0.01)), ("interactive", Flow(300, 0.002, 0.01))],
        _quanta(interactive=4, bulk=1),
    ),
}
