"""The part of the matrix that can be had in little time."""

from __future__ import annotations

from tests.faults.matrix import FAULTS, Case, cases

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
    "channel closed before ack",
    "cut after publish",
    "cut before confirm",
    "black hole, then cut",
    "worker kill -9, buffered",
    "worker kill -9, working",
    "SIGTERM, then cut",
}
KEYED = {"cut", "broker kill -9", "worker kill -9", "SIGTERM, then cut"}
"""On queues that are shared by key."""
LEDGER_SINCE, LEDGERS = "tests/once/test_ledger_since.py", "tests/test_ledger.py"
SHOWN = {
    "channel closed before publish": "tests/once/test_broker_refuses.py",
    "channel closed after publish": "tests/once/test_broker_refuses.py",
    "no answer to fetch (EVALSHA)": "tests/faults/test_lost_answer.py",
    "no answer to ack (ZREM)": "tests/faults/test_lost_answer.py",
    "silence": "tests/faults/test_silent.py",
    "consumer_timeout": "tests/integration/test_consumer_timeout.py",
    "consumer_timeout, given back before": "tests/integration/test_consumer_timeout.py",
    "delivery limit": "tests/integration/test_delivery_limit.py",
    "mixed fleet, then cut": LEDGER_SINCE,
    "mixed fleet, then kill -9": LEDGER_SINCE,
    "mixed fleet, then kill -9 of who has no ledger": LEDGER_SINCE,
    "other expiry, then kill -9": LEDGERS,
    "ledger's clock steps ahead, then cut": "tests/core/test_disposition.py",
    "ledger's clock steps back, then cut": "tests/core/test_disposition.py",
    "ledger's clock steps ahead and back, then cut": LEDGERS,
}
"""Where `make test` has the gist of a fault that takes long in full."""

PREFORK_ONLY = {name for name, fault in FAULTS.items() if fault.pools == ("prefork",)}


def is_quick(case: Case) -> bool:
    """All faults on each broker; on quorum queues what may differ there, on classic the rest."""
    if case.fault in SHOWN or case.tasks != FAULTS[case.fault].tasks:
        return False
    if case.pool == "prefork" and case.queue_type != "keyed":
        elsewhere = case.broker == "redis" and case.fault in PREFORK_ONLY
        return elsewhere or (case.fault in PREFORK and case.queue_type == "quorum")
    if case.queue_type == "keyed":
        return case.fault in KEYED and not case.ledger
    if case.queue_type == "quorum":
        return case.fault in QUORUM or case.mortal
    if case.broker == "rabbitmq" and case.fault in QUORUM:
        return False
    return case.fault != "broker restart" or case.broker == "redis"


QUICK = sorted(filter(is_quick, cases()), key=lambda case: (case.mortal, case.label, case.pool))


def tried(fault: str, broker: str) -> list[str]:
    """On which queues and pools a fault is tried on a broker, or where else."""
    if fault in SHOWN:
        return [f"`{SHOWN[fault]}`"]
    chosen = [case for case in QUICK if (case.fault, case.broker) == (fault, broker)]
    return [", ".join(filter(None, (case.queue_type, case.pool, case.ledger))) for case in chosen]
