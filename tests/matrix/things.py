"""What is tried in each cell, one thing after the other on one scene.

All but the first are faults of the fault matrix (`tests/faults`), with its accounts and laws.
"""

from __future__ import annotations

from collections.abc import Callable

from tests import shares
from tests.brokers.sentinel import Sentinel
from tests.fairness.sample import weighed
from tests.faults.fault import TASKS, Fault
from tests.faults.matrix import FAULTS, attempt
from tests.faults.run import Run
from tests.faults.scene import CONF, QUEUES, Scene
from tests.integration.patience import be_received_again, become_visible, run_out
from tests.matrix.shop import VISIBLE_AFTER, Shop

QUANTA = {name: options["quantum"] for name, options in CONF["fair_queues"].items()}
ROUNDS = 50
"""Of four messages each."""
WARM_UP, RESERVE = 3, 4
"""Rounds, and messages of a queue."""
LIMIT = 0.05
"""Of a share, by which it may be wrong."""
PLAIN = 4
"""Ordinary messages."""


def fairness(scene: Scene, seed: int) -> str:
    """One queue gets three times what the other gets, while both have messages waiting."""
    published = {name: ROUNDS * quantum for name, quantum in QUANTA.items()}
    ids = [task for name, n in published.items() for task in scene.publish(n, "plain", queue=name)]
    scene.worker  # noqa: B018
    starts = scene.records.started.wait_once(ids, timeout=90)
    a_round = sum(QUANTA.values())
    sample = shares.while_backlogged(starts, published, warm_up=WARM_UP * a_round, reserve=RESERVE)
    error = shares.max_share_error(weighed(sample, a_round), QUANTA)
    assert error <= LIMIT, f"a share is wrong by {error:.1%}"
    return f"{error:.1%}"


def at_most_once(scene: Scene, seed: int) -> str:
    """All times run out, while tasks run and messages wait; no worker minds."""
    attempt(Fault(_outlast, cuts=0), TASKS, scene, seed)
    return ""


def _outlast(run: Run) -> None:
    scene = run.scene
    run.hold()
    plain = scene.publish(PLAIN, "plain", str(run.gate.path), QUEUES[0])
    run.occupied()
    scene.another()
    if isinstance(scene, Shop):
        be_received_again(scene.sqs, VISIBLE_AFTER)
    elif run.kind == "redis":
        become_visible(scene.space, scene.transport_options)
    else:
        run_out(scene.space)
    run.gate.open()
    scene.records.finished.wait_ids(plain)


def warm_stop(scene: Scene, seed: int) -> str:
    """Nothing is lost, nothing is a dead letter."""
    attempt(FAULTS["SIGTERM"], TASKS, scene, seed)
    return ""


def cut(scene: Scene, seed: int) -> str:
    """The connection is lost; with a sentinel, since its server is killed and another leads."""
    fails_over = isinstance(scene.space.server, Sentinel) if not isinstance(scene, Shop) else False
    attempt(Fault(_fail_over) if fails_over else FAULTS["cut"], TASKS, scene, seed)
    return ""


def _fail_over(run: Run) -> None:
    run.publish()
    run.moment()
    run.scene.space.server.fail_over()


def kill(scene: Scene, seed: int) -> str:
    """The worker is killed; what it was running may be lost, and no more."""
    attempt(FAULTS["worker kill -9"], TASKS, scene, seed)
    return ""


THINGS: dict[str, Callable[[Scene, int], str]] = {
    "fairness": fairness,
    "at most once": at_most_once,
    "cut": cut,
    "kill": kill,
    "warm stop": warm_stop,
}
"""In the order in which they are tried. Each returns what else there is to say."""
