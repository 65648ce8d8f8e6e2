"""What becomes of the ledger, and of workers that do not agree about it."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.acts.network import BLIND
from tests.faults.ledgers import HOUR, OnPostgreSQL, OnRedis
from tests.faults.run import HELD, Run
from tests.faults.scene import QUEUES
from tests.integration.depths import left
from tests.waiting import wait_equal, wait_for

SHORT = 1.0
"""Seconds after which a worker with other settings forgets its claims."""
AHEAD = 30 * 24 * HOUR
"""Seconds: more than the ledger remembers, by default."""


def flushed(run: Run) -> None:
    """And then the connection is cut: what comes back was claimed, and nobody knows it any more."""
    run.publish()
    run.moment()
    _on_redis(run).flush()
    run.proxy.cut()


def away(run: Run) -> None:
    """It is away, the connection is cut, and it is back."""
    run.publish()
    run.moment()
    ledger = _on_redis(run)
    ledger.pause()
    try:
        run.proxy.cut()
        run.started(run.started(0) + run.some(6), BLIND)
    finally:
        ledger.resume()


def mixed(trouble: Callable[[Run], None], run: Run) -> None:
    """A worker without the ledger joins two with it, and one of those gets into trouble."""
    run.scene.another()
    run.scene.another(without="ledger")
    trouble(run)


def mixed_and_killed(run: Run) -> None:
    """So does a worker without it, and it is killed.

    It works with all its slots then, so that it gives nothing back with a mark.
    """
    other = run.scene.another(without="ledger")
    run.hold("after")
    started = run.occupied(2)
    acknowledged = started.difference(run.ids["after"])
    wait_equal(lambda: left(run.scene.space, *QUEUES), HELD - len(acknowledged))
    other.kill()
    other.process.end()


def expiry_changed(run: Run) -> None:
    """A worker has another expiry; what it has claimed is forgotten, and it is killed."""
    other = run.scene.another(fair_ledger_expiry=SHORT)
    run.hold("after")
    held = run.occupied(2)
    of_the_others = len(held) - run.scene.concurrency
    wait_for(lambda: len(run.scene.ledger.claimed(held)) <= of_the_others, 30, "forgotten claims")
    other.kill()
    other.process.end()


def clock_stepped(ahead: float, run: Run) -> None:
    """The ledger's clock is wrong from now on, and the connection is cut."""
    ledger = _on_postgresql(run)
    run.hold("after")
    run.occupied()
    ledger.step(ahead)
    run.publish()
    run.proxy.cut()


def clock_stepped_and_back(run: Run) -> None:
    """It is ahead only while another worker starts, to whom claims seem to have expired."""
    ledger = _on_postgresql(run)
    run.hold("after")
    run.occupied()
    ledger.step(AHEAD)
    run.scene.another()
    ledger.step(0)
    run.proxy.cut()


def _on_redis(run: Run) -> OnRedis:
    assert isinstance(run.scene.ledger, OnRedis)
    return run.scene.ledger


def _on_postgresql(run: Run) -> OnPostgreSQL:
    assert isinstance(run.scene.ledger, OnPostgreSQL)
    return run.scene.ledger
