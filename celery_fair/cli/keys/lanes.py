"""``fair keys`` on RabbitMQ: what waits in a queue and in its lanes."""

import sys
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import click

from celery_fair.brokers.lanes import Lanes, NotEmptyError, lane, register
from celery_fair.brokers.mover import AmqpMover, NotTakenError
from celery_fair.cli.interrupt import stoppable
from celery_fair.cli.live.answers import NoAnswer
from celery_fair.cli.live.workers import Workers
from celery_fair.cli.options import Outcome, table
from celery_fair.settings import Settings

__all__ = ["of_lanes", "shrunk", "sorted_again"]

_PATIENCE = 2.0
"""Seconds for workers to say that they run."""

_ONCE = 256
"""Lanes that are asked about in one go."""


def shrunk(app: Any, settings: Settings, connection: Any, queue: str) -> Outcome:
    """Remove empty lanes, those with the highest numbers first, until one is not empty.

    Raises:
        click.ClickException: a worker answers that consumes the queue.
    """
    _refuse_workers(app, queue)
    physical = app.amqp.queues[queue]
    lanes = Lanes(partial(connection.clone, heartbeat=0), physical, settings.keys[queue].lanes)
    with closing(lanes):
        count = lanes.recount()
        with stoppable() as stop:
            try:
                while lanes.count and not stop() and lanes.remove_last():
                    pass
            except NotEmptyError as exc:
                raise click.ClickException(
                    f"{exc}, and are lost: a publisher or worker was running. Stop all of them"
                ) from exc
    removed, left = count - lanes.count, lanes.count
    lines = [f"{removed} empty lanes of {queue} are removed, {left} are left"]
    if left:
        last = lane(physical, left - 1).name
        lines.append(
            f"{last} is not empty, and lanes are numbered without gaps: `fair keys {queue} --merge`"
            " puts what waits in lanes back into the queue itself; then say this again"
        )
    return Outcome({"removed": removed, "left": left}, lines, good=not left)


def _refuse_workers(app: Any, queue: str) -> None:
    with closing(Workers(app, (), _PATIENCE)) as workers:
        try:
            answers = workers.ask("active_queues")
        except NoAnswer as exc:
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
        raise click.ClickException(
            f"{', '.join(consuming)} runs, and consumes {queue}; nothing was removed. Stop all its"
            " workers and publishers first: what came into a lane just then would be lost"
        )


def of_lanes(
    app: Any, settings: Settings, connection: Any, queue: str, top: int, merge: bool
) -> Outcome:
    """Return what waits; or, with `merge`, put all of it back into the queue."""
    physical = app.amqp.queues[queue]
    connect = partial(connection.clone, heartbeat=0)
    with ExitStack() as opened:
        lanes = Lanes(connect, physical, settings.keys[queue].lanes)
        opened.callback(lanes.close)
        filled = _filled(lanes)
        if merge:
            mover = opened.enter_context(closing(AmqpMover(settings.dead_letters, connection)))
            return _merged(lanes, mover, physical, filled)
        front = lanes.front()
        count = lanes.count
    rows = sorted(filled.items(), key=lambda item: (-item[1], item[0]))[:top]
    found = [{"lane": lane(physical, number).name, "waiting": depth} for number, depth in rows]
    waiting = sum(filled.values())
    line = (
        f"{queue}: {front} messages wait in the queue itself, and {waiting} in {len(filled)} of its"
        f" {count} lanes"
    )
    document = {"front": front, "lanes": count, "waiting": front + waiting, "top": found}
    cells = [[row["lane"], row["waiting"]] for row in found]
    return Outcome(document, [line, *(table(("lane", "waiting"), cells, "") if cells else ())])


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
        raise click.ClickException(
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
