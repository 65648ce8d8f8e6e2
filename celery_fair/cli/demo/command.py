"""The command: its options, its order of events, its exit status."""

from importlib.util import find_spec
from pathlib import Path

import click

__all__ = ["demo"]

_POOLS = ("solo", "threads", "prefork", "gevent", "eventlet")
_TABLES = (100, 1)  # microseconds of work in Table 1 and Table 2
_INTERRUPTED = 130


def _messages(_ctx: click.Context, _param: click.Parameter, value: int) -> int:
    from celery_fair.cli.demo.workload import LEAST_MESSAGES

    if value < LEAST_MESSAGES:
        raise click.BadParameter(
            f"with {value} messages a queue there is nothing to measure;"
            f" use {LEAST_MESSAGES} or more"
        )
    return value


def _pool(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if value in {"gevent", "eventlet"} and not find_spec(value):
        raise click.BadParameter(
            f"{value!r} needs a package that is not installed: pip install celery[{value}]"
        )
    return value


def _concurrency(ctx: click.Context, _param: click.Parameter, value: int) -> int:
    if value > 1 and ctx.params.get("pool") == "solo":
        raise click.BadParameter(
            f"a solo worker runs one task at a time, not {value}; choose another --pool"
        )
    return value


@click.command()
@click.option(
    "--broker",
    metavar="URL",
    default="memory://",
    show_default=True,
    help="memory://, amqp://user:password@host:5672/vhost or redis://host:6379/0.",
)
@click.option(
    "--messages",
    metavar="N",
    type=int,
    default=1200,
    show_default=True,
    callback=_messages,
    help="Messages published to each of the ten queues.",
)
@click.option(
    "--work",
    metavar="MICROSECONDS",
    type=click.IntRange(0, 10_000_000),
    help="Work of each task, for one run only.  [default: two runs, of 100 and of 1]",
)
@click.option(
    "--pool",
    type=click.Choice(_POOLS),
    default="solo",
    show_default=True,
    is_eager=True,
    callback=_pool,
    help="The worker's pool.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    callback=_concurrency,
    help="Tasks that the worker runs at once.",
)
@click.option(
    "--html",
    metavar="PATH",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    default="celery-fair-demo.html",
    show_default=True,
    help="Where to write the plot of shares over time.",
)
@click.option("--no-html", is_flag=True, help="Write no plot.")
@click.option(
    "--event-log",
    metavar="FOLDER",
    type=click.Path(file_okay=False, writable=True, path_type=Path),
    help="Where the worker writes its event log.  [default: nowhere]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else.")
@click.pass_context
def demo(
    ctx: click.Context,
    broker: str,
    messages: int,
    work: int | None,
    pool: str,
    concurrency: int,
    html: Path,
    no_html: bool,
    event_log: Path | None,
    as_json: bool,
) -> None:
    """Watch a worker give ten queues their shares.

    Ten queues, p0 to p9, have quanta from 4 to 40: p9 is entitled to ten times what p0 gets, and
    p0 to 1.82 % of the worker. Each queue is filled with messages of equal cost; a real worker
    then consumes them until half of all are started, when every queue has a backlog still. The
    tasks themselves record each start, and shares are counted from these records.

    This is done twice: with tasks that take 100 µs, and with tasks that take 1 µs, so little that
    a worker with equal windows outruns its broker and all shares become equal. Published figures
    of such a worker stand beside the result.

    \b
    Examples:
      celery fair demo
      celery fair demo --work 1 --pool threads --concurrency 4
      celery fair demo --broker amqp://guest:guest@localhost:5672// --messages 5000
      celery fair demo --json --no-html | python -m json.tool
      celery fair demo --event-log demo-log

    On a real broker, the queues begin with a prefix of their own and are deleted at the end, also
    after Ctrl-C. No other queue is touched.

    Exit status: 0 if every share was within 2 % of its target (in a short run, within one round of
    the scheduler), 1 if not, 2 if there is no result, 130 after Ctrl-C.
    """
    from celery_fair.cli.demo.broker import Broker
    from celery_fair.cli.demo.run import Setup
    from celery_fair.cli.demo.session import demonstrate
    from celery_fair.cli.demo.workload import Workload
    from celery_fair.cli.interrupt import interruptible

    log = None if event_log is None else event_log.absolute()
    setup = Setup(Broker(broker), pool, concurrency, log)
    setup.broker.check()
    path = None if no_html else html.absolute()
    workloads = [Workload(messages, each) for each in (_TABLES if work is None else (work,))]
    try:
        with interruptible():
            fair = demonstrate(setup, workloads, path, as_json)
    except KeyboardInterrupt:
        click.echo("Interrupted; the worker has ended, and its queues are deleted.", err=True)
        ctx.exit(_INTERRUPTED)
    ctx.exit(0 if fair else 1)
