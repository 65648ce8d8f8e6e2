"""``fair doctor``."""

from collections.abc import Iterator
from contextlib import closing
from shutil import get_terminal_size
from typing import Any

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import (
    AmqpBroker,
    MemoryBroker,
    RedisBroker,
    SqsBroker,
    broker_of,
    shown,
)
from celery_fair.brokers.refused import refuse_broker
from celery_fair.cli.connecting import app_of, connection_to, trouble_with
from celery_fair.cli.doctor.amqp_checks import amqp_findings
from celery_fair.cli.doctor.app_checks import app_findings
from celery_fair.cli.doctor.consumer_timeout import consumer_timeout
from celery_fair.cli.doctor.findings import LEVELS, OK, WEAK, WRONG, Finding, ok, weak, wrong
from celery_fair.cli.doctor.key_checks import key_findings
from celery_fair.cli.doctor.ledger_checks import ledger_findings
from celery_fair.cli.doctor.redis_checks import redis_findings
from celery_fair.cli.doctor.sqs_checks import sqs_findings
from celery_fair.cli.doctor.worker_checks import worker_findings
from celery_fair.cli.escaped import escaped
from celery_fair.cli.options import Outcome, Seconds, outcome
from celery_fair.core.membership import elsewhere, living
from celery_fair.groups import StoreUnreachableError
from celery_fair.groups.document import decoded
from celery_fair.routing.declared import declare_queues
from celery_fair.settings import Settings
from celery_fair.tasks import non_repeatable
from celery_fair.worker.group_step import store_for

__all__ = ["doctor", "findings"]

_COLOURS = {OK: "green", WEAK: "yellow", WRONG: "red"}
_WIDTH, _NARROW = 100, 60
_UNCHECKED = "nothing else about it can be checked"


@click.command()
@click.option("--strict", is_flag=True, help="Exit with 1 for what is weak, too.")
@click.option(
    "--timeout",
    type=Seconds(0, 3600),
    default=1.0,
    show_default=True,
    help="Seconds to wait for workers' answers; 0: ask none.",
)
@outcome("Print the findings as JSON.")
@click.pass_context
def doctor(ctx: click.Context, strict: bool, timeout: float) -> Outcome:
    """Say what weakens the app's promises, and how to mend it.

    Reads the app's settings and tasks, the live broker, the ledger and the store of keys, asks the
    workers that run, and changes nothing there but for a claim of its own, which it gives up, and a
    queue of its own, which it deletes; with partitions, a Redis that has no name yet is given one.
    Each line is

    \b
    ok      as it should be
    weak    it works, and promises less than it could
    wrong   it does not work, or does not do what was asked for

    and for the latter two, after the arrow, what mends it.

    \b
    Examples:
      celery -A shop fair doctor
      celery -A shop fair doctor --strict --json

    Exit status: 0; 1 if something is wrong, with --strict also if something is weak.
    """
    found = list(findings(app_of(ctx), timeout))
    bad = {WRONG, WEAK} if strict else {WRONG}
    document = [finding._asdict() for finding in found]
    return Outcome(document, _lines(found), all(finding.level not in bad for finding in found))


def findings(app: Any, timeout: float) -> Iterator[Finding]:
    """Yield what `doctor` says of an app.

    Arguments:
        timeout: seconds for which workers' answers are waited for; with 0 none is asked.
    """
    try:
        app.loader.import_default_modules()
        app.finalize(auto=True)
        settings = Settings.of(app)
        declare_queues(app, settings)
    except ImproperlyConfigured as exc:
        yield wrong("settings", str(exc), "correct it; workers do not start like this")
        return
    yield ok("settings", "all have values that are allowed")
    yield from app_findings(app, settings)
    yield from _broker(app, settings, timeout)
    yield from ledger_findings(settings, bool(non_repeatable(app)))


def _broker(app: Any, settings: Settings, timeout: float) -> Iterator[Finding]:
    queues = list(app.amqp.queues.values())
    try:
        unopened = connection_to(app.connection_for_read)
    except click.ClickException as exc:
        yield wrong("broker", exc.message, _UNCHECKED)
        return
    with unopened as connection:
        trouble = trouble_with(connection, "broker_url")
        if trouble is not None:
            yield wrong("broker", trouble, _UNCHECKED)
            return
        broker, once = broker_of(connection), non_repeatable(app)
        try:
            refuse_broker(connection, settings, once)
            if settings.partitioned:
                yield _groups(settings, connection)
        except ImproperlyConfigured as exc:
            yield wrong("workers", str(exc), "until then, they do not start")
        if isinstance(broker, AmqpBroker):
            yield from amqp_findings(connection, queues, settings.dead_letters, bool(once))
            yield from consumer_timeout(app, connection, queues)
        elif isinstance(broker, RedisBroker):
            letters, keyed = settings.dead_letters, list(settings.keys)
            yield from redis_findings(app, connection, queues, letters, keyed)
        elif isinstance(broker, SqsBroker):
            yield from sqs_findings(app, connection, queues, settings.dead_letters)
        elif isinstance(broker, MemoryBroker):
            yield ok("broker", "in this process's memory: for demonstrations and tests")
        else:
            yield weak(
                "broker",
                f"{shown(connection)}: fair workers are not tested with this transport",
                "RabbitMQ, Redis or SQS",
            )
        yield from key_findings(connection, broker, settings)
        if isinstance(broker, AmqpBroker | RedisBroker):
            yield from worker_findings(app, settings, timeout)


def _groups(settings: Settings, connection: Any) -> Finding:
    """Read what is there of the groups, and whether they are this app's.

    Raises:
        celery.exceptions.ImproperlyConfigured: there is no such store.
    """
    try:
        with closing(store_for(settings, connection)) as store:
            snapshots = {name: store.read(name) for name in sorted(settings.partitions)}
    except StoreUnreachableError as exc:
        return wrong(
            "fair_group_store",
            f"does not answer ({exc}): no partition is consumed",
            "start it, or correct fair_group_store; on a new database, fair partitions create",
        )
    here = broker_of(connection).identity(connection)
    for name, (_, text, now) in snapshots.items():
        try:
            group = decoded(text)
        except ValueError as exc:
            return wrong("fair_group_store", f"{name}: {exc}", "upgrade, or use another store")
        for member, broker in elsewhere(group, here, living(group, now)).items():
            return wrong(
                "fair_group_store",
                f"group {name!r} is one of workers on another broker: {member} is on {broker}, and"
                f" this app on {here}; its workers consume nothing of the group",
                "'group' in fair_partitions: another name; or a store for each app",
            )
    return ok("fair_group_store", "answers")


def _lines(found: list[Finding]) -> Iterator[str]:
    wide = max(_NARROW, min(_WIDTH, get_terminal_size((_WIDTH, 0)).columns))
    topics = max(len(escaped(finding.topic)) for finding in found)
    indent = " " * (max(map(len, LEVELS)) + topics + 4)
    for level, *said in found:
        topic, text, mend = map(escaped, said)
        head = click.style(f"{level:<{max(map(len, LEVELS))}}", fg=_COLOURS[level])
        lines = click.wrap_text(text, wide, indent, indent).lstrip()
        yield f"{head}  {topic:<{topics}}  {lines}"
        if mend:
            yield click.wrap_text(f"→ {mend}", wide, indent, indent + "  ")
    counts = {level: sum(finding.level == level for finding in found) for level in LEVELS}
    yield ", ".join(f"{count} {level}" for level, count in counts.items())
