"""The part of the matrix that can be had in little time."""

from __future__ import annotations

from tests.faults.matrix import FAULTS, TASKS, Case, cases

SEED = 1
PREFORK = {
    "worker kill -9",
    "worker kill -9, acknowledged",
    "worker kill -9, done",
    "child kill -9",
    "SIGTERM",
    "SIGQUIT",
}
QUORUM = {
    "cut",
    "cut before ack",
    "cut after ack",
    "cut after publish",
    "cut before confirm",
    "black hole, then cut",
    "worker kill -9, buffered",
    "worker kill -9, working",
    "SIGTERM, then cut",
}


PREFORK_ONLY = {name for name, fault in FAULTS.items() if fault.pools == ("prefork",)}


def is_quick(case: Case) -> bool:
    """All faults on each broker; on both kinds of queue, and pools, where they may differ."""
    if case.tasks != TASKS:
        return False
    if case.pool == "prefork":
        elsewhere = case.broker == "redis" and case.fault in PREFORK_ONLY
        return elsewhere or (case.fault in PREFORK and case.queue_type == "quorum")
    if case.queue_type == "quorum":
        return case.fault in QUORUM or case.mortal
    return case.fault != "broker restart" or case.broker == "redis"


QUICK = sorted(filter(is_quick, cases()), key=lambda case: (case.mortal, case.label, case.pool))


def tried(fault: str, broker: str) -> list[str]:
    """On which queues and pools a fault is tried on a broker."""
    chosen = [case for case in QUICK if (case.fault, case.broker) == (fault, broker)]
    return [
        ", ".join(filter(None, (case.queue_type, case.pool, "ledger" * case.ledger)))
        for case in chosen
    ]
