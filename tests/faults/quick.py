"""The part of the matrix that can be had in little time."""

from __future__ import annotations

from tests.faults.matrix import TASKS, Case, cases

SEED = 1
PREFORK = {"worker kill -9", "child kill -9", "SIGTERM"}
QUORUM = {
    "cut",
    "cut before ack",
    "cut after ack",
    "cut after publish",
    "cut before confirm",
    "black hole, then cut",
    "SIGTERM, then cut",
}


def is_quick(case: Case) -> bool:
    """All faults; on both kinds of queue where they may differ."""
    if case.tasks != TASKS:
        return False
    if case.pool == "prefork":
        return case.fault in PREFORK and case.queue_type == "quorum"
    if case.queue_type == "quorum":
        return case.fault in QUORUM or case.mortal
    return case.fault != "broker restart" or case.broker == "redis"


QUICK = sorted(filter(is_quick, cases()), key=lambda case: (case.mortal, case.label, case.pool))
