"""A row of the matrix, as data: what is done, where, and what it may cost.

What it may cost at the most:

- each worker killed: as many messages as it runs at once, of those that are
  acknowledged before they start (one that is being acknowledged is for a slot
  that is free);
- each connection lost, or channel: one of those whose acknowledgement is a round trip
  ("confirmed", and all on Redis), if the answer is what was lost;
- a queue deleted or flushed: what was in it.

Where the victim's ledger was away, what was given back with a mark at the moment when it was
killed, or cut off, is at the broker twice, on RabbitMQ: one starts at the most, and the other is a
dead letter, or both are if it was given its copy, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tests.faults.accounting import EVERYTHING, Allowed
from tests.faults.run import Run
from tests.faults.scene import Scene
from tests.faults.stage import PLAIN, Stage

TASKS = ("before", "after", "confirmed")
EVERY = (*TASKS, "plain")
"""An ordinary task, too: it may start twice, and is never lost for a doubt."""
BOTH = ("rabbitmq", "redis")


def by_round_trip(kind: str) -> set[str]:
    """The tasks whose acknowledgement is answered before they start."""
    return {"confirmed"} if kind == "rabbitmq" else {"before", "confirmed"}


class Loss(NamedTuple):
    """What a fault may cost at the most."""

    everything: bool
    """Whatever is in the queue."""
    running: int
    """Workers, and with each what it runs."""
    answers: int
    """Connections, and with each a message whose acknowledgement's answer was lost."""

    def allowed(self, concurrency: int) -> Allowed:
        """In messages, of workers with so many slots."""
        if self.everything:
            return EVERYTHING
        running = self.running * concurrency
        both = running + self.answers  # what is about to start has not started
        return Allowed(running, both, both)


@dataclass(frozen=True)
class Fault:
    act: Callable[[Run], None]
    brokers: tuple[str, ...] = BOTH
    queue_types: tuple[str, ...] = ("classic", "quorum")
    """On RabbitMQ."""
    keyed: bool = True
    """Whether it is tried on queues that are shared by key, too."""
    pools: tuple[str, ...] = ("threads",)
    kills: int = 0
    """Workers that die without a farewell."""
    cuts: int = 1
    """How often the worker loses its connection, or a channel."""
    deletes: bool = False
    buries: bool = True
    """Whether it leads to dead letters."""
    halves: int = 0
    """Messages that are given back by half, on RabbitMQ: the copy is in its queue and starts, and
    the original was not acknowledged, comes again and is a dead letter."""
    mortal: bool = False
    """Whether it hurts a whole broker."""
    ends: bool = False
    """Whether the worker is to end by it."""
    ledgers: tuple[str, ...] = ("",)
    """Of `LEDGERS`; without one, if that is empty."""
    tasks: tuple[str, ...] = TASKS
    stage: Stage = PLAIN

    def loss(self, kind: str, tasks: tuple[str, ...]) -> Loss:
        early = set(tasks) - {"after"}
        waiting = early & by_round_trip(kind)
        return Loss(self.deletes, self.kills if early else 0, self.cuts if waiting else 0)

    def allowed(self, scene: Scene, tasks: tuple[str, ...], marks: bool = False) -> Allowed:
        """What may become of messages of these tasks.

        A second cut may come amid the moves that the first has led to. On RabbitMQ it takes along
        the acknowledgements that are under way then; on Redis a move is one step. What starts when
        the broker has answered its acknowledgement never comes again, if the broker survives.
        Of a queue that is shared by key RabbitMQ's workers move messages all the time.

        Arguments:
            marks: whether the victim's ledger was away, so that it has given back with marks.
        """
        kind = scene.space.kind
        buried_twice = math.inf if self.cuts > 1 else marks
        twice = buried_twice if kind == "rabbitmq" else 0
        dead = math.inf if self.buries and set(tasks) != {"plain"} else 0
        allowed = self.loss(kind, tasks).allowed(scene.concurrency)
        moves = math.inf if scene.queue_type == "keyed" else self.halves + marks
        halves = moves if kind == "rabbitmq" else 0
        answered = set(tasks) <= by_round_trip(kind) and kind != "sqs"  # which delivers it again
        started = halves if answered and not self.mortal else math.inf
        return allowed._replace(
            twice=math.inf if "plain" in tasks else 0,
            dead=dead,
            dead_started=started,
            dead_twice=twice,
        )
