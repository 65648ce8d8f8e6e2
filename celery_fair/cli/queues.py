"""``fair explain``, ``set``, ``pause`` and ``resume``: a queue at its workers."""

from collections.abc import Sequence

import click

from celery_fair.cli.asking import answered, asking
from celery_fair.cli.options import Outcome, outcome
from celery_fair.cli.screen import Line
from celery_fair.operate import queues
from celery_fair.operate.text import escaped
from celery_fair.operate.workers import Workers

__all__ = ["explain", "pause", "resume", "set_options"]

_UNTIL_THE_END = (
    "It lasts until these workers end, and workers that start later do not know of it. --keep, with"
    " a Redis broker or a fair_key_store, keeps it for those, too."
)

_as_json = outcome("Print the answers as JSON, by worker.")
_keep = click.option(
    "--keep", is_flag=True, help="Keep it in Redis, for workers that start later, too."
)


@click.command()
@click.argument("queue")
@_as_json
@asking
def explain(workers: Workers, queue: str) -> Outcome:
    """Say why no message of QUEUE starts now, at each worker that consumes it.

    \b
    no_message  nothing is at the worker: the queue is empty, or its refill is on the way
    no_credit   its credit is used up, and others have their turn
    class       queues of higher classes have messages, and go first
    no_slot     every slot of the pool is busy; it says who has their turn before it
    leash       its rate allows no start yet; the answer says when it will
    cap         as many of its tasks run as may (max_in_flight)
    paused      an operator has paused it
    keys        what waits is of keys that may start none now: `fair keys list` says which
    suspended   the broker has taken it away; it is tried again
    starting    nothing holds it back

    \b
    Examples:
      celery -A shop fair explain bulk
      celery -A shop fair explain bulk --json -d celery@host1

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    answers = workers.ask("fair_explain", queue=queue)
    return answered(answers, lambda answer: f"{queue}: {answer['text']}")


@click.command("set")
@click.argument("queue")
@click.argument("options", nargs=-1, metavar="OPTION=VALUE...")
@_keep
@click.option("--forget", is_flag=True, help="Keep nothing of QUEUE any more; change nothing now.")
@_as_json
@asking
def set_options(
    workers: Workers,
    queue: str,
    options: Sequence[str],
    keep: bool,
    forget: bool,
) -> Outcome:
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
    if forget:
        if options or keep:
            raise click.UsageError("--forget keeps nothing any more: leave out options and --keep")
        was = queues.forget(workers.app, queue)
        said = "is not kept any more; workers that run go on as they are" if was else "was not kept"
        return Outcome({"forgotten": was}, [escaped(f"what was set of {queue} {said}")])
    if not options:
        raise click.MissingParameter(param_type="argument", param_hint="'OPTION=VALUE...'")
    changed = queues.set_options(workers, queue, queues.live_options(queue, options), keep)
    if changed.refused:
        return answered(changed.answers, notes=["Nothing was changed."])
    return _changed(changed, keep)


@click.command()
@click.argument("queue")
@_keep
@_as_json
@asking
def pause(workers: Workers, queue: str, keep: bool) -> Outcome:
    """Start nothing of QUEUE until it is resumed; what runs goes on.

    Its messages stay where they are, and the other queues share what it leaves. A pause outlasts
    reconnects, but not the worker's restart, and workers that start later do not know of it, unless
    it is kept with --keep, once a worker has paused it: then all that start later do, whichever was
    named with -d; `fair resume` ends that, too.

    \b
    Examples:
      celery -A shop fair pause bulk
      celery -A shop fair pause bulk --keep
      celery -A shop fair pause bulk -d celery@host1

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    return _changed(queues.pause(workers, queue, keep), keep)


@click.command()
@click.argument("queue")
@_as_json
@asking
def resume(workers: Workers, queue: str) -> Outcome:
    """End a pause of QUEUE, also one that is kept.

    \b
    Example:
      celery -A shop fair resume bulk

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    changed = queues.resume(workers, queue)
    return answered(changed.answers, notes=_notes(changed))


def _changed(changed: queues.Changed, keep: bool) -> Outcome:
    """Say, to whoever reads text, how long a change lasts, if one was made."""
    told = answered(changed.answers, notes=_notes(changed))
    if changed.answers.good or changed.kept is not None:
        how_long = Line(queues.KEPT if keep else _UNTIL_THE_END, err=True)
        return told._replace(lines=[how_long, *told.lines])
    return told


def _notes(changed: queues.Changed) -> list[str]:
    return [escaped(f"Note: {changed.note}")] if changed.note else []
