"""What waits in a queue of RabbitMQ and in its lanes, and what is done with these."""

import sys
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import click

from celery_fair.brokers.lanes import Lanes, NotEmptyError, lane, register
from celery_fair.brokers.mover import AmqpMover, NotTakenError
from celery_fair.cli.interrupt import stoppable
from celery_fair.cli.options import Outcome
from celery_fair.operate.errors import NoAnswerError, OperateError
from celery_fair.operate.workers import Workers
from celery_fair.settings import Settings

__all__ = ["Look", "look", "merged", "shrunk", "sorted_again"]

_PATIENCE = 2.0
"""Seconds for workers to say that they run."""

_ONCE = 256
"""Lanes that are asked about in one go."""


def shrunk(app: Any, settings: Settings, connection: Any, queue: str) -> Outcome:
    """Remove empty lanes, those with the highest numbers first, until one is not empty.

    Raises:
        OperateError: a worker answers that consumes the queue.
    """
    _refuse_workers(app, queue)
    with closing(_lanes(app, settings, connection, queue)) as lanes:
        count = lanes.recount()
        with stoppable() as stop:
            try:
                while lanes.count and not stop() and lanes.remove_last():
                    pass
            except NotEmptyError as exc:
                raise OperateError(
                    f"{exc}, and are lost: a publisher or worker was running. Stop all of them"
                ) from exc
    removed, left = count - lanes.count, lanes.count
    lines = [f"{removed} empty lanes of {queue} are removed, {left} are left"]
    if left:
        last = lane(app.amqp.queues[queue], left - 1).name
        lines.append(
            f"{last} is not empty, and lanes are numbered without gaps: `fair keys {queue} --merge`"
            " puts what waits in lanes back into the queue itself; then say this again"
        )
    return Outcome({"removed": removed, "left": left}, lines, good=not left)


def _refuse_workers(app: Any, queue: str) -> None:
    with closing(Workers(app, (), _PATIENCE)) as workers:
        try:
            answers = workers.ask("active_queues")
        except NoAnswerError as exc:
            if exc.silent:
                return
            raise
    names = {queue, register(queue)}
    consuming = [
        name
        for name, queues in answers.good.items()
        if any(each["name"] in names for each in queues)
    ]
    if consuming:
        raise OperateError(
            f"{', '.join(consuming)} runs, and consumes {queue}; nothing was removed. Stop all its"
            " workers and publishers first: what came into a lane just then would be lost"
        )


class Look(NamedTuple):
    """What the broker says.

    Attributes:
        front: how many messages wait in the queue itself.
        lanes: how many there are.
        filled: how many messages wait in lanes that have any, by their numbers.
    """

    front: int
    lanes: int
    filled: dict[int, int]


def look(app: Any, settings: Settings, connection: Any, queue: str) -> Look:
    """Ask what waits in a queue and its lanes."""
    with closing(_lanes(app, settings, connection, queue)) as lanes:
        filled = _filled(lanes)
        return Look(lanes.front(), lanes.count, filled)


def merged(app: Any, settings: Settings, connection: Any, queue: str) -> Outcome:
    """Put all that waits in lanes back into the queue."""
    with (
        closing(_lanes(app, settings, connection, queue)) as lanes,
        closing(AmqpMover(settings.dead_letters, connection)) as mover,
    ):
        return _merged(lanes, mover, app.amqp.queues[queue], _filled(lanes))


def _lanes(app: Any, settings: Settings, connection: Any, queue: str) -> Lanes:
    connect = partial(connection.clone, heartbeat=0)
    return Lanes(connect, app.amqp.queues[queue], settings.keys[queue].lanes)


def _filled(lanes: Lanes) -> dict[int, int]:
    """Return how many messages wait in each lane that has some."""
    depths: dict[int, int] = {}
    for first in range(0, lanes.recount(), _ONCE):
        depths |= lanes.depths(range(first, min(first + _ONCE, lanes.count)))
    return {number: depth for number, depth in depths.items() if depth}


def sorted_again(left: int, where: str) -> str:
    """Say why a merge has not put everything back."""
    return (
        f"{left} wait in {where} again: workers with fair_keys, or publishers with celery-fair, are"
        " at work. Stop them, and say it again"
    )


def _merged(lanes: Lanes, mover: AmqpMover, queue: Any, filled: dict[int, int]) -> Outcome:
    merged, everything = 0, sum(filled.values())
    try:
        with (
            stoppable() as stop,
            click.progressbar(length=everything, label="merging", file=sys.stderr) as bar,
        ):
            for number, depth in sorted(filled.items()):
                name = lane(queue, number).name
                for _ in range(depth):  # who sorts meanwhile would keep it busy for ever
                    if stop() or (raw := lanes.channel.basic_get(name)) is None:
                        break
                    mover.move(lanes.channel.message_to_python(raw), queue.name)
                    merged += 1
                    bar.update(1)
    except NotTakenError as exc:
        raise OperateError(
            f"{merged} messages are back in {queue.name}, then the broker took no more: {exc}."
            " Say it again when it does"
        ) from exc
    lines = [f"{merged} messages are back in {queue.name}"]
    left = max(0, everything - merged) if stop() else sum(_filled(lanes).values())
    if left and stop():
        lines.append(f"about {left} still wait in lanes, as this was interrupted; say it again")
    elif left:
        lines.append(sorted_again(left, "lanes"))
    return Outcome({"merged": merged, "left": left}, lines, good=not left)
