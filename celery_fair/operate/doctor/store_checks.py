"""What the ledger says, the store of keys with the lanes, and the store of groups."""

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import broker_of
from celery_fair.brokers.keyed.store import KeyStore
from celery_fair.ledger import LedgerUnreachableError, ledger_at
from celery_fair.operate import partitions
from celery_fair.operate.doctor.findings import Finding, ok, weak, wrong
from celery_fair.operate.doctor.redis_checks import server_findings
from celery_fair.operate.errors import OperateError
from celery_fair.redis_client import client_at
from celery_fair.settings import Settings

_KEY = "celery-fair doctor"


def ledger_findings(settings: Settings, non_repeatable: bool) -> Iterator[Finding]:
    """Claim something, if there is a ledger, and give it up."""
    url = settings.ledger
    if url is None:
        if non_repeatable:
            yield ok("ledger", "none: whatever was delivered before is dead-lettered")
        return
    scheme = url.partition(":")[0]
    try:
        with closing(ledger_at(url, settings.ledger_expiry)) as ledger:
            claim = ledger.claim(_KEY, "doctor", doubt=True)
            ledger.forget(_KEY)
    except (ImproperlyConfigured, LedgerUnreachableError) as exc:
        yield wrong(
            "ledger", f"{scheme}://… does not answer: {exc}", "start it, or correct fair_ledger"
        )
        return
    since = datetime.fromtimestamp(claim.epoch, UTC)
    days = settings.ledger_expiry / 86400
    yield ok("ledger", f"{scheme}: complete since {since:%Y-%m-%d %H:%M:%S} UTC, for {days:g} days")
    if non_repeatable and settings.ledger_since is None:
        yield weak(
            "ledger: since",
            "proves nothing: a worker without it may have started what is not claimed. What was"
            " delivered before is dead-lettered",
            "when the last worker without the ledger has ended: fair_ledger_since ="
            f" '{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}'",
        )
    if scheme in ("redis", "rediss", "unix"):
        with closing(client_at(url, "fair_ledger")) as client:
            yield from server_findings("ledger", client)


def key_findings(connection: Any, settings: Settings, queues: Sequence[str]) -> Iterator[Finding]:
    """Check the queues of ``fair_keys``.

    Arguments:
        connection: connected, to the app's broker.
        queues: those that workers consume.
    """
    broker = broker_of(connection)
    others = [name for name in queues if name not in settings.keys]
    waiting: dict[str, int] = {}
    with suppress(Exception):  # what may not be looked at, others say
        waiting = broker.by_key(connection.default_channel, others)
    for name, count in waiting.items():
        yield weak(
            f"queue {name}",
            f"{count} messages wait by key, and workers without fair_keys for it do not see them",
            f"fair keys merge {name}; or fair_keys for it again",
        )
    if settings.keys and not broker.keeps_tags and broker.shares_by_key:
        yield _key_store(settings)


def _key_store(settings: Settings) -> Finding:
    topic = "fair_key_store"
    if settings.key_store is None:
        return weak(
            topic,
            "none: each worker keeps the keys' tags itself; keys can have no caps and leashes, and"
            " nothing can be set for them, or paused, while workers run",
            "fair_key_store = 'redis://…'",
        )
    try:
        with closing(KeyStore(settings.key_store)) as store:
            store.lists(next(iter(settings.keys.values()))).look()
    except Exception as exc:  # noqa: BLE001 - of whatever client or server
        return wrong(
            topic,
            f"does not answer ({exc}): keys that have a cap, a leash or a pause start nothing",
            "start it, or correct fair_key_store",
        )
    return ok(topic, "answers: it counts what keys run, and keeps what is set live")


def group_finding(app: Any) -> Finding:
    """Read what is there of the groups, and whether they are this app's."""
    try:
        notes = partitions.look(app).notes
    except OperateError as exc:
        return wrong(
            "fair_group_store",
            f"{exc}: no partition is consumed",
            "start it, or correct fair_group_store; on a new database, fair partitions create",
        )
    if notes:
        return wrong(
            "fair_group_store",
            "; ".join(notes),
            "'group' in fair_partitions: another name; or a store for each app",
        )
    return ok("fair_group_store", "answers")
