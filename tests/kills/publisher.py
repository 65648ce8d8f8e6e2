"""A publisher that is killed: it tells of each message before it publishes it, and when it has.

    python -m tests.kills.publisher '{"url": …}'

Nothing is published twice: what the broker has not confirmed is left to its fate. It publishes in
bursts, each of one key, and waits while its file of orders says so.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from celery import Celery
from kombu import Queue

from celery_fair import install
from celery_fair.headers import FAIR_KEY
from tests.apps.recorder import Recorder
from tests.preloaded import PreloadedCelery
from tests.processes import ROOT

TASKS = ("late", "before", "after")
"""Of `tests.apps.once`: the first may start again, the others must not."""
PATIENCE = 5.0
"""Seconds for a broker to answer: one that was killed with the answer on its way never does."""


class Named(NamedTuple):
    """What a message's id says of it."""

    task: str
    key: str
    serial: str

    @classmethod
    def of(cls, task_id: str) -> Named:
        return cls(*task_id.split(":"))

    @property
    def tenant(self) -> str:
        return self.key.partition("/")[0]

    def __str__(self) -> str:
        return ":".join(self)


@dataclass
class Orders:
    url: str
    queue: str
    records: str
    """Path prefix of the files in which it says what it has sent, and what was confirmed."""
    pause: str
    """While this file is there, it publishes nothing."""
    seed: int
    keys: list[str]
    installed: bool = True
    conf: dict[str, Any] = field(default_factory=dict)
    queue_arguments: dict[str, Any] = field(default_factory=dict)
    burst: int = 30
    """Messages of a key at once, at the most."""
    flood: int = 0
    """Messages of the first key, before all others."""
    each: int = 0
    """If not 0, so many of each key, and then it ends."""
    seconds: float = 0.03
    """A task takes so long at the most."""


class PublisherProcess(PreloadedCelery):
    """One, started at once."""

    module = "tests.kills.publisher"

    def __init__(self, orders: Orders, log: Path) -> None:
        path = {"PYTHONPATH": str(ROOT)}
        super().__init__([json.dumps(asdict(orders))], log, os.environ | path)


def published(orders: Orders, draw: random.Random) -> Iterator[str]:
    """Yield the keys of messages, one after the other."""
    if orders.each:
        for key in orders.keys:
            yield from [key] * orders.each
        return
    yield from orders.keys[:1] * orders.flood
    while True:
        yield from [draw.choice(orders.keys)] * draw.randint(1, orders.burst)


def app_of(orders: Orders) -> Celery:
    app = Celery("publisher", broker=orders.url, set_as_current=False)
    app.conf.update(orders.conf, task_ignore_result=True)
    app.conf.task_queues = [Queue(orders.queue, queue_arguments=orders.queue_arguments)]
    options = dict(app.conf.broker_transport_options)
    if orders.url.startswith("amqp"):  # which loses what it has not confirmed
        options |= {"confirm_publish": True, "read_timeout": PATIENCE, "write_timeout": PATIENCE}
    app.conf.broker_transport_options = options
    return install(app) if orders.installed else app


def run(orders: Orders) -> None:
    draw, turn = random.Random(orders.seed), Event()
    sent, confirmed = (Recorder(f"{orders.records}.{what}") for what in ("sent", "confirmed"))
    app, pause, numbers = app_of(orders), Path(orders.pause), count(1)
    for key in published(orders, draw):
        while pause.exists() and not orders.each:
            turn.wait(0.05)
        name, number = draw.choice(TASKS), next(numbers)
        task = str(Named(name, key, f"{os.getpid()}.{number}"))
        sent(key, task, number)
        try:
            send(app, orders, key, task, draw.uniform(0, orders.seconds))
        except Exception as exc:  # noqa: BLE001 - whatever a broker's death looks like from here
            print(f"{task}: {exc!r}", file=sys.stderr, flush=True)
            turn.wait(0.2)
        else:
            confirmed(key, task, number)


def send(app: Celery, orders: Orders, key: str, task: str, seconds: float) -> None:
    options: Mapping[str, Any] = {"headers": {FAIR_KEY: key}}
    if orders.installed:
        options = {"fair_key": tuple(key.split("/")) if "/" in key else key}
    args = (int(task.rpartition(".")[2]), "", seconds)
    app.send_task(
        Named.of(task).task, args, task_id=task, queue=orders.queue, retry=False, **options
    )


if __name__ == "__main__":
    run(Orders(**json.loads(sys.argv[1])))
