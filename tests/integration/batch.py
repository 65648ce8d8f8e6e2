"""Messages that no task can be made of, each before a good one: what becomes of all of them."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from kombu import Connection

from celery_fair.dead_letters.death import dead_letter_queue
from tests.brokers import Space
from tests.integration.depths import left
from tests.integration.malformed import Malformed
from tests.waiting import wait_for
from tests.workers import WorkerProcess

PATIENCE = 60
"""Seconds after which something hangs."""


class Outcome(NamedTuple):
    """What became of a message, and of the good one behind it."""

    reasons: list[str]
    """Of its dead letters."""
    after: float
    """Seconds between the starts of the good messages before and behind it; without, infinite."""


def outcomes(
    worker: WorkerProcess, space: Space, kinds: Mapping[str, Malformed]
) -> dict[str, Outcome]:
    """Give all to a worker at once, which takes them in their order."""
    goods = _published(worker, space, kinds)
    started = worker.records.started

    def over() -> bool:
        return not worker.running or (
            len(started.times(goods.values())) == len(goods) and not left(space, "a")
        )

    def missing() -> str:
        times = started.times(goods.values())
        late = [kind for kind, good in goods.items() if good not in times]
        return f"the good ones behind {late}; left: {space.depths()}\n{worker.log()[-5000:]}"

    wait_for(over, PATIENCE, missing)
    at = {record.id: record.monotonic_ns / 1e9 for record in started.read()}
    reasons, before = buried(space), at.get(goods[""], float("inf"))
    found = {}
    for kind in kinds:
        now = at.get(goods[kind], float("inf"))
        found[kind] = Outcome(reasons[kind], now - before if now < float("inf") else now)
        before = now
    return found


def outcomes_in_time(
    worker: WorkerProcess,
    space: Space,
    kinds: Mapping[str, Malformed],
    within: float,
    tries: int = 3,
) -> dict[str, Outcome]:
    """So too, and what took longer is tried again: the machine may have been busy, once."""
    found = outcomes(worker, space, kinds)
    for _ in range(1, tries):
        late = [kind for kind, outcome in found.items() if outcome.after >= within]
        if not late or not worker.running:
            break
        again = outcomes(worker, space, {kind: kinds[kind] for kind in late})
        found |= {kind: Outcome(found[kind].reasons, again[kind].after) for kind in late}
    return found


def _published(
    worker: WorkerProcess, space: Space, kinds: Mapping[str, Malformed]
) -> dict[str, str]:
    """Publish while the worker stands still; return the ids of the good ones, by kind."""
    goods: dict[str, str] = {}
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        with Connection(space.url) as connection:
            publish = connection.Producer().publish
            for kind, bad in {"": None, **kinds}.items():
                if bad is not None:
                    publish(routing_key="a", message_id=kind, **bad.message())
                good = Malformed().message()
                goods[kind] = good["headers"]["id"]
                publish(routing_key="a", **good)
    finally:
        os.kill(worker.pid, signal.SIGCONT)
    return goods


def buried(space: Space) -> dict[str, list[str]]:
    """The reasons of all dead letters, by kind."""
    reasons = defaultdict(list)
    with Connection(space.url) as connection, connection.channel() as channel:
        dead_letter_queue("dead-letters")(channel).declare()
        while (letter := channel.basic_get("dead-letters", no_ack=True)) is not None:
            kind = letter.properties.get("message_id")
            reasons[kind].append(letter.headers["x-fair-reason"])
    return reasons
