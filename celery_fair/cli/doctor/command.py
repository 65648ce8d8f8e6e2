"""``fair doctor``."""

import json
from collections.abc import Iterator
from typing import Any

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.cli.connecting import trouble_with
from celery_fair.cli.doctor.amqp_checks import amqp_findings
from celery_fair.cli.doctor.app_checks import app_findings, non_repeatable
from celery_fair.cli.doctor.findings import LEVELS, OK, WEAK, WRONG, Finding, ok, wrong
from celery_fair.cli.doctor.ledger_checks import ledger_findings
from celery_fair.cli.doctor.redis_checks import redis_findings
from celery_fair.cli.live.options import app_of
from celery_fair.routing.declared import declare_queues
from celery_fair.settings import Settings

__all__ = ["doctor"]

_COLOURS = {OK: "green", WEAK: "yellow", WRONG: "red"}
_WIDTH = 100


@click.command()
@click.option("--strict", is_flag=True, help="Exit with 1 for what is weak, too.")
@click.option("-j", "--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def doctor(ctx: click.Context, strict: bool, as_json: bool) -> None:
    """Say what weakens the app's promises, and how to mend it.

    Reads the app's settings and tasks, the live broker and the ledger, and changes nothing there
    but for a claim of its own, which it gives up. Each line is

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
    app = app_of(ctx)
    found = list(_findings(app))
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in found], indent=2))
    else:
        _show(found)
    bad = {WRONG, WEAK} if strict else {WRONG}
    ctx.exit(1 if any(finding.level in bad for finding in found) else 0)


def _findings(app: Any) -> Iterator[Finding]:
    try:
        app.loader.import_default_modules()
        app.finalize(auto=True)
        settings = Settings.of(app)
        declare_queues(app, settings)
    except ImproperlyConfigured as exc:
        yield wrong("settings", str(exc), "correct it; workers do not start like this")
        return
    yield ok("settings", "no worker will refuse them")
    yield from app_findings(app, settings)
    yield from _broker(app, settings)
    yield from ledger_findings(settings, bool(non_repeatable(app)))


def _broker(app: Any, settings: Settings) -> Iterator[Finding]:
    queues = list(app.amqp.queues.values())
    with app.connection_for_read() as connection:
        trouble = trouble_with(connection, "broker_url")
        if trouble is not None:
            yield wrong("broker", trouble, "nothing else about it can be checked")
            return
        driver = connection.transport.driver_type
        if driver == "amqp":
            once = bool(non_repeatable(app))
            yield from amqp_findings(connection, queues, settings.dead_letters, once)
        elif driver == "redis":
            yield from redis_findings(app, connection, queues, settings.dead_letters)
        else:
            yield ok("broker", f"{connection.as_uri()}; of this kind nothing more is known")


def _show(found: list[Finding]) -> None:
    topics = max(len(finding.topic) for finding in found)
    indent = " " * (max(map(len, LEVELS)) + topics + 4)
    for level, topic, text, mend in found:
        head = click.style(f"{level:<{max(map(len, LEVELS))}}", fg=_COLOURS[level])
        lines = click.wrap_text(text, _WIDTH, indent, indent).lstrip()
        click.echo(f"{head}  {topic:<{topics}}  {lines}")
        if mend:
            click.echo(click.wrap_text(f"→ {mend}", _WIDTH, indent, indent + "  "))
    counts = {level: sum(finding.level == level for finding in found) for level in LEVELS}
    click.echo(", ".join(f"{count} {level}" for level, count in counts.items()))
