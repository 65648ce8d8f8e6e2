"""The command: its options, its order of events, its exit status."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from celery_fair.cli.options import NEW_FILE, Seconds

if TYPE_CHECKING:
    from celery_fair.cli.demo.demonstration import Demonstration
    from celery_fair.cli.demo.worker import Setup

__all__ = ["demo"]

_POOLS = ("solo", "threads", "prefork", "gevent", "eventlet")
_INTERRUPTED = 130

_OWN = {"waits": ("seconds",), "shares": ("messages", "stop", "work", "event_log")}
"""The options that only one of the demonstrations has."""


def _pool(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value in {"gevent", "eventlet"} and not find_spec(value):
        raise click.BadParameter(
            f"{value!r} needs a package that is not installed: pip install celery[{value}]"
        )
    return value


@click.command()
@click.option(
    "--shares",
    is_flag=True,
    help="Show the shares of ten queues instead, beside published figures.",
)
@click.option(
    "--broker",
    metavar="URL",
    default="memory://",
    help="memory://, amqp://user:password@host:5672/vhost or redis://host:6379/0.",
)
@click.option(
    "--pool",
    type=click.Choice(_POOLS),
    callback=_pool,
    help="The workers' pool.  [default: threads; with --shares solo]",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    help="Tasks that a worker runs at once.  [default: 2; in a solo pool 1]",
)
@click.option(
    "--seconds",
    type=Seconds(1, 600),
    default=3,
    help="How long password mails are published, to each worker.",
)
@click.option(
    "--messages",
    metavar="N",
    type=int,
    default=1200,
    help="With --shares: messages published to each of the ten queues.",
)
@click.option(
    "--stop",
    metavar="N",
    type=int,
    help="With --shares: starts after which a run ends.  [default: five times --messages]",
)
@click.option(
    "--work",
    metavar="MICROSECONDS",
    type=click.IntRange(0, 10_000_000),
    help="With --shares: work of each task, for one run only.  [default: two runs, 100 and 1]",
)
@click.option(
    "--event-log",
    metavar="FOLDER",
    type=click.Path(file_okay=False, writable=True, path_type=Path),
    help="With --shares: where the worker writes its event log.  [default: nowhere]",
)
@click.option(
    "--html",
    metavar="PATH",
    type=NEW_FILE,
    default="celery-fair-demo.html",
    help="Where to write the page with the plots.",
)
@click.option("--no-html", is_flag=True, help="Write no page.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else.")
@click.pass_context
def demo(
    ctx: click.Context,
    /,
    shares: bool,
    broker: str,
    pool: str | None,
    concurrency: int | None,
    html: Path,
    no_html: bool,
    as_json: bool,
    **own: Any,
) -> None:
    """Watch a password mail wait behind bulk work, with Celery's own worker and with a fair one.

    A queue 'bulk' has a backlog of newsletters; now and then a password mail arrives in the queue
    'interactive'. First Celery's own worker consumes both queues, then a fair one with quanta 1
    and 10: real worker processes with two threads each, else Celery's defaults (prefetch
    multiplier 4), and the same messages at the same times. The tasks record each start, and waits
    are counted from publishing to these records. In the end there is one sentence with the medians
    and 95 % quantiles of both, and a page with one run above the other. With prefork, Celery's own
    worker fetches ahead on RabbitMQ and Redis, but not in memory.

    With --shares, ten queues, p0 to p9, have quanta from 4 to 40: p9 is entitled to ten times what
    p0 gets, and p0 to 1.82 % of the worker. Each is filled with messages of equal cost; a fair
    worker then consumes them until half of all are started, when every queue still has a backlog.
    This is done twice: with tasks that take 100 µs, and with tasks that take 1 µs, so little that
    a worker with equal windows outruns its broker and all shares become equal. Published figures
    of such a worker stand beside the result; they come from 40,000 messages a queue and a stop at
    200,000.

    \b
    Examples:
      celery fair demo
      celery fair demo --concurrency 4 --seconds 10
      celery fair demo --broker amqp://guest:guest@localhost:5672// --pool prefork
      celery fair demo --json --no-html | python -m json.tool
      celery fair demo --shares
      celery fair demo --shares --messages 40000 --stop 200000 --work 1
      celery fair demo --shares --event-log demo-log

    On a real broker, the queues begin with a prefix of their own and are deleted at the end, also
    after Ctrl-C. No other queue is touched.

    Exit status: 0 if mails waited less with the fair worker, by their medians; with --shares, if
    every share was within 2 % of its target (in a short run, within one round of the scheduler).
    1 if not, 2 if there is no result, 130 after Ctrl-C.
    """
    from celery_fair.cli.demo.broker import Broker
    from celery_fair.cli.demo.demonstration import demonstrate
    from celery_fair.cli.demo.waits.demonstration import WaitsDemonstration
    from celery_fair.cli.demo.worker import Setup
    from celery_fair.cli.interrupt import interruptible

    _refuse_others(ctx, shares)
    pool = pool or ("solo" if shares else "threads")
    setup = Setup(Broker(broker), pool, _slots(pool, concurrency))
    shown: Demonstration[Any] = WaitsDemonstration(setup, own.pop("seconds"))
    if shares:
        shown = _of_shares(setup, **own)
    setup.broker.check()
    try:
        with interruptible():
            good = demonstrate(shown, None if no_html else html.absolute(), as_json)
    except KeyboardInterrupt:
        click.echo("Interrupted; the worker has ended, and its queues are deleted.", err=True)
        ctx.exit(_INTERRUPTED)
    ctx.exit(0 if good else 1)


def _refuse_others(ctx: click.Context, shares: bool) -> None:
    """Refuse options of the demonstration that was not asked for."""
    for name in _OWN["waits" if shares else "shares"]:
        if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            way = "does not go with --shares;" if shares else "goes with --shares: add that, or"
            raise click.UsageError(f"--{name.replace('_', '-')} {way} leave it out")


def _slots(pool: str, concurrency: int | None) -> int:
    if pool == "solo" and (concurrency or 1) > 1:
        raise click.BadParameter(
            f"a solo worker runs one task at a time, not {concurrency}; choose another --pool",
            param_hint="--concurrency",
        )
    return concurrency or (1 if pool == "solo" else 2)


def _of_shares(
    setup: "Setup", messages: int, stop: int | None, work: int | None, event_log: Path | None
) -> "Demonstration[Any]":
    from celery_fair.cli.demo.shares.demonstration import SharesDemonstration
    from celery_fair.cli.demo.shares.published import TABLES
    from celery_fair.cli.demo.shares.workload import Workload

    try:
        workloads = [
            Workload.of(messages, each, stop) for each in (TABLES if work is None else (work,))
        ]
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
    return SharesDemonstration(setup, workloads, event_log and event_log.absolute())
