"""``fair status``, ``explain``, ``set``, ``pause`` and ``resume``: queues at their workers."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar

import click

from celery_fair.cli.options import (
    Outcome,
    Seconds,
    conclude,
    json_option,
    outcome,
    the_app,
    timeout_option,
)
from celery_fair.cli.rows import BY_WORKER, SUMMED, room, tables, title
from celery_fair.operate import queues
from celery_fair.operate.answers import Answers
from celery_fair.operate.sums import summed
from celery_fair.operate.text import escaped
from celery_fair.operate.workers import Workers

_KEPT = "It is kept, and holds for workers that start later, too."
_UNTIL_THE_END = (
    "It lasts until these workers end, and workers that start later do not know of it. --keep, with"
    " a Redis broker or a fair_key_store, keeps it for those, too."
)

T = TypeVar("T")

view_option = click.option(
    "--by",
    type=click.Choice(["queue", "worker"]),
    help="Sum queues over all workers, or show each worker's.  [default: queue]",
)
_as_json = outcome("Print the answers as JSON, by worker.")
_keep = click.option(
    "--keep", is_flag=True, help="Keep it in Redis, for workers that start later, too."
)


def asking(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command these options; call it with `workers` and its own."""

    @click.option(
        "-d",
        "--destination",
        metavar="WORKER[,WORKER…]",
        multiple=True,
        help="Ask these workers only, such as celery@host.  [default: all]",
    )
    @timeout_option(Seconds(0, 3600, min_open=True), "How long to wait for answers.")
    @click.pass_context
    @wraps(command)
    def ask(ctx: click.Context, /, **given: Any) -> T:
        names = [name for some in given.pop("destination") for name in some.split(",")]
        if "" in names:
            raise click.UsageError("-d names no WORKER, as a variable does that is not set")
        workers = Workers(the_app(), names, given.pop("timeout"))
        ctx.call_on_close(workers.close)
        return command(workers=workers, **given)

    return ask


def _answered(
    answers: Answers,
    line: Callable[[Any], str] = lambda answer: str(answer["ok"]),
    notes: Iterable[str] = (),
) -> Outcome:
    """Return what workers have answered, a line for each."""
    lines = [escaped(f"{worker}: {line(answer)}") for worker, answer in answers.good.items()]
    return Outcome(answers.raw, lines, not answers.errors, [*notes, *_remarks(answers)])


def _remarks(answers: Answers) -> list[str]:
    """Return what was not well, or is to be known, for standard error."""
    return [
        *(escaped(f"Note: {worker}: {text}") for worker, text in answers.remarks()),
        *(escaped(f"Error: {worker}: {text}") for worker, text in answers.errors.items()),
    ]


@click.command()
@view_option
@json_option("Print the answers as JSON, by worker.")
@asking
def status(workers: Workers, as_json: bool, by: str | None) -> None:
    """Show what queues get, and what waits in them, over all workers, or at each one.

    Workers of another app on the same broker, which has another name and other queues, are named,
    and left out unless -d asks them.

    \b
    Over all workers:
    workers    that consume the queue
    fair       its part of what is served, by the quanta of the queues that are active
    share      what it got of the cost served in the last ten seconds
    starts/s   in the last ten seconds
    in flight  tasks that run
    at workers, at broker  messages that wait; in a queue of fair_keys, its lanes' too
    oldest     the age of the oldest of them, where it is told: publishers have `install`, and it
               is at a worker, or in Redis; a RabbitMQ shows nothing without giving it out
    empty in   how long until all that waits has started, if no more comes
    held back  paused; cap: as many in flight as it may; leash: until its next token

    \b
    With --by worker also:
    quantum    what the queue is served per round, in units of cost
    class      under strict priority: a higher one goes first
    credit     what it may still be served in its turn (the deficit counter)
    window     deliveries that may be unsettled here at once
    buffered   messages that wait here, of these deliveries
    served     messages started since the worker's start
    waiting    how long the oldest buffered message has waited here

    --json prints the workers' answers; with --by queue, what they sum up to.

    \b
    Examples:
      celery -A shop fair status
      celery -A shop fair status --by worker -d celery@host1,celery@host2
      celery -A shop fair status --json | python -m json.tool
      celery -A shop fair keys list jobs

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    by_worker = by == "worker" or (as_json and not by)
    conclude(queue_figures(workers, workers.status(), by_worker), as_json)


def queue_figures(workers: Workers, answers: Answers, by_worker: bool) -> Outcome:
    """Return what workers have answered of their queues, or what that sums up to."""
    if by_worker or not answers.good:
        found, lines, trouble = answers.good, tables(BY_WORKER, answers.good, room()), ""
    else:
        found, trouble = summed(workers, answers.good)
        lines = tables(SUMMED, {title(answers.good): found}, room())
    notes = [escaped(f"Note: {trouble}")] if trouble else []
    return Outcome(found, lines, not answers.errors, [*notes, *_remarks(answers)])


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
    urgent      what is urgent for its target goes first; it names those queues
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
    return _answered(answers, lambda answer: f"{queue}: {answer['text']}")


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
    target=P%<TIME    P percent of its messages start within TIME; for one that has a target
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
      celery -A shop fair set mail 'target=95%<0.5s'
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
    return _changed(changed, _KEPT if keep else _UNTIL_THE_END)


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
    return _changed(queues.pause(workers, queue, keep), _KEPT if keep else _UNTIL_THE_END)


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
    return _changed(queues.resume(workers, queue))


def _changed(changed: queues.Changed, how_long: str = "") -> Outcome:
    """Say what has become of a change, and how long it lasts, if one was made."""
    notes = [escaped(f"Note: {changed.note}")] if changed.note else []
    if how_long and (changed.answers.good or changed.kept is not None):
        notes.append(how_long)
    return _answered(changed.answers, notes=notes)
