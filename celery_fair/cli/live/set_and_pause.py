"""``fair set``, ``fair pause``, ``fair resume``: what workers are told."""

from collections.abc import Sequence

import click

from celery_fair.cli.live.answers import Answers, show
from celery_fair.cli.live.assignments import parse_assignments
from celery_fair.cli.live.options import asking
from celery_fair.cli.live.workers import Workers

__all__ = ["pause", "resume", "set_options"]


@click.command("set")
@click.argument("queue")
@click.argument("options", nargs=-1, required=True, metavar="OPTION=VALUE...")
@asking
def set_options(
    ctx: click.Context, workers: Workers, as_json: bool, queue: str, options: Sequence[str]
) -> None:
    """Change options of QUEUE while its workers run.

    \b
    quantum=N         its share is N by the sum of the active queues' quanta
    rate=N/s          starts per second at the most; also N/m, N/h, none
    burst=N           of these, so many at once
    max_in_flight=N   tasks that a worker runs of it at once; none for no cap
    prefetch=N        messages that a worker holds of it; none lets that adapt

    A change holds for messages that wait already, and over reconnects; a worker that is started
    anew begins with its settings again. If anything is wrong with any option, nothing is changed
    anywhere: workers are asked whether they would take all of it before one is told to.

    \b
    Examples:
      celery -A shop fair set bulk quantum=8
      celery -A shop fair set partner rate=10/s burst=5
      celery -A shop fair set reports max_in_flight=none -d celery@host1

    Exit status: 0; 1 if a worker answers with an error or no worker answers; 2 if no worker was
    asked, because of an option.
    """
    assigned = parse_assignments(queue, options)
    answers = workers.ask("fair_set", queue=queue, options=assigned, check=True)
    if answers.errors:
        click.echo("Nothing was changed.", err=True)
        answers = _refusals(answers)
    else:
        # All are told, whoever was too busy to answer at first included.
        expected = answers
        answers = workers.ask("fair_set", enough=len(answers.raw), queue=queue, options=assigned)
        answers = _confirmed(expected, answers, workers.timeout)
    _show(ctx, answers, as_json)


@click.command()
@click.argument("queue")
@asking
def pause(ctx: click.Context, workers: Workers, as_json: bool, queue: str) -> None:
    """Start nothing of QUEUE until it is resumed; what runs goes on.

    Its messages stay where they are, the other queues share what it leaves. A pause holds over
    reconnects, not over a worker's restart.

    \b
    Examples:
      celery -A shop fair pause bulk
      celery -A shop fair pause bulk -d celery@host1

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    _show(ctx, workers.ask("fair_pause", queue=queue), as_json)


@click.command()
@click.argument("queue")
@asking
def resume(ctx: click.Context, workers: Workers, as_json: bool, queue: str) -> None:
    """End a pause of QUEUE.

    \b
    Example:
      celery -A shop fair resume bulk

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    _show(ctx, workers.ask("fair_resume", queue=queue), as_json)


def _refusals(answers: Answers) -> Answers:
    """Return the answers without those of workers that would have been willing."""
    raw = {worker: answer for worker, answer in answers.raw.items() if worker not in answers.good}
    return Answers(raw, {}, answers.notes, answers.errors)


def _confirmed(expected: Answers, answers: Answers, timeout: float) -> Answers:
    """Return the answers, with an error for each worker that was willing and has not confirmed."""
    silent = expected.good.keys() - answers.raw.keys()
    text = f"was told, but has not confirmed within {timeout:g} s; fair status shows whether it did"
    return Answers(
        answers.raw, answers.good, answers.notes, answers.errors | dict.fromkeys(silent, text)
    )


def _show(ctx: click.Context, answers: Answers, as_json: bool) -> None:
    show(ctx, answers, as_json, lambda answer: str(answer["ok"]))
