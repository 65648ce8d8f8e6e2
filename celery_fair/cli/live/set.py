"""``fair set``."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.kept import KeptQueue
from celery_fair.cli.escaped import escaped
from celery_fair.cli.live.answers import Answers, NoAnswer, show
from celery_fair.cli.live.keep import forgotten, keep_option, kept_by, say_how_long
from celery_fair.cli.live.options import asking
from celery_fair.cli.live.workers import Workers
from celery_fair.cli.options import assignments
from celery_fair.settings import parse_live_options

__all__ = ["parse_assignments", "set_options", "told"]


@click.command("set")
@click.argument("queue")
@click.argument("options", nargs=-1, metavar="OPTION=VALUE...")
@keep_option
@click.option("--forget", is_flag=True, help="Keep nothing of QUEUE any more; change nothing now.")
@asking
def set_options(
    ctx: click.Context,
    workers: Workers,
    as_json: bool,
    queue: str,
    options: Sequence[str],
    keep: bool,
    forget: bool,
) -> None:
    """Change options of QUEUE while its workers run.

    \b
    quantum=N         its share is N by the sum of the active queues' quanta
    rate=N/s          at most N starts per second; also N/m, N/h, none
    burst=N           of these, so many at once
    max_in_flight=N   its tasks that a worker runs at once; none for no cap
    prefetch=N        its messages that a worker holds; none lets that adapt

    A change also holds for messages that are waiting already, and outlasts reconnects; a worker
    that is restarted begins with its settings again, and so does one that starts later, unless the
    change is kept with --keep: in the broker, if that is Redis, or the fair_key_store. It then goes
    before the settings until it is set otherwise so, or --forget. If anything is wrong with any
    option, nothing is changed anywhere: all workers are asked whether they would accept the change
    before any of them is told to make it.

    \b
    Examples:
      celery -A shop fair set bulk quantum=8
      celery -A shop fair set partner rate=10/s burst=5
      celery -A shop fair set bulk quantum=8 --keep
      celery -A shop fair set bulk --forget
      celery -A shop fair set reports max_in_flight=none -d celery@host1

    Exit status: 0; 1 if a worker answers with an error or no worker answers; 2 if no worker was
    asked, because of an option.
    """
    if forget and (options or keep):
        raise click.UsageError("--forget keeps nothing any more: leave out options and --keep")
    if not (forget or options):
        raise click.MissingParameter(param_type="argument", param_hint="'OPTION=VALUE...'")
    if forget:
        was = forgotten(ctx.obj.app, lambda keeping: keeping.forget(queue) != KeptQueue())
        said = "is not kept any more; workers that run go on as they are" if was else "was not kept"
        text = f"what was set of {queue} {said}"
        click.echo(json.dumps({"forgotten": was}) if as_json else text)
        return
    assigned = parse_assignments(queue, options)
    answers = workers.ask("fair_set", queue=queue, options=assigned, check=True)
    if answers.errors:
        click.echo("Nothing was changed.", err=True)
        answers = _refusals(answers)
    else:
        if keep:
            kept_by(ctx.obj.app, lambda keeping: keeping.keep(queue, assigned))
        try:
            answers = told(workers, answers, queue, assigned)
        except NoAnswer as exc:
            if not exc.silent:
                click.echo(escaped(f"Note: {exc.message}"), err=True)
            answers = _confirmed(answers, Answers({}, {}, {}, {}), workers.timeout)
        say_how_long(as_json, keep, keep or bool(answers.good))
    show(ctx, answers, as_json)


def told(workers: Workers, willing: Answers, queue: str, options: Mapping[str, Any]) -> Answers:
    """Tell workers to make a change that they have been asked about, and say which did not confirm.

    All are told, whoever was too busy to answer at first included.

    Raises:
        NoAnswer: nobody has confirmed it.
    """
    answers = workers.ask("fair_set", until=willing.raw, queue=queue, options=dict(options))
    return _confirmed(willing, answers, workers.timeout)


def _refusals(answers: Answers) -> Answers:
    """Return the answers without those of workers that would have been willing."""
    raw = {worker: answer for worker, answer in answers.raw.items() if worker not in answers.good}
    return replace(answers, raw=raw, good={})


def _confirmed(expected: Answers, answers: Answers, timeout: float) -> Answers:
    """Return the answers, with an error for each worker that was willing and has not confirmed."""
    silent = expected.good.keys() - answers.raw.keys()
    text = f"was told, but has not confirmed within {timeout:g} s; fair status shows whether it did"
    return replace(answers, errors=answers.errors | dict.fromkeys(silent, text))


def parse_assignments(queue: str, words: Sequence[str]) -> dict[str, Any]:
    """Return options as a worker is sent them, numbers, None or text; it is not asked yet.

    Raises:
        click.UsageError: for anything that no worker would take.
    """
    options = assignments(words, "quantum=40 or rate=10/s")
    try:
        parse_live_options(queue, options)
    except ImproperlyConfigured as exc:
        raise click.UsageError(str(exc)) from exc
    return options
