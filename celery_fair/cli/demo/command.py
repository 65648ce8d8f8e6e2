"""The command: its options, its order of events, its exit status."""

import click

from celery_fair.cli.options import Seconds, parsed_by
from celery_fair.core.targets import parse_target


@click.command()
@click.option(
    "--broker",
    metavar="URL",
    default="memory://",
    help="memory://, amqp://user:password@host:5672/vhost or redis://host:6379/0.",
)
@click.option(
    "--pool",
    type=click.Choice(("threads", "prefork", "gevent", "eventlet")),
    default="threads",
    help="The workers' pool.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=2,
    help="Tasks that a worker runs at once.",
)
@click.option(
    "--seconds",
    type=Seconds(1, 600),
    default=3,
    help="How long password mails are published, to each worker.",
)
@click.option(
    "--target",
    metavar="'95% < 0.5s'",
    callback=parsed_by(lambda text: str(parse_target(text))),
    help="What mails may wait with the fair worker, in place of quanta.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else.")
@click.pass_context
def demo(
    ctx: click.Context,
    /,
    broker: str,
    pool: str,
    concurrency: int,
    seconds: float,
    target: str | None,
    as_json: bool,
) -> None:
    """Watch a password mail wait behind bulk work, with Celery's own worker and with a fair one.

    A queue 'bulk' has a backlog of newsletters; now and then a password mail arrives in the queue
    'interactive'. First Celery's own worker consumes both queues, then a fair one with quanta 1
    and 10: real worker processes with two threads each, else Celery's defaults (prefetch
    multiplier 4), and the same messages at the same times. The tasks record each start, and waits
    are counted from publishing to these records. In the end there is one sentence with the medians
    and 95 % quantiles of both. With prefork, Celery's own worker fetches ahead on RabbitMQ and
    Redis, but not in memory.

    \b
    Examples:
      celery fair demo
      celery fair demo --concurrency 4 --seconds 10
      celery fair demo --broker amqp://guest:guest@localhost:5672// --pool prefork
      celery fair demo --target '95% < 0.5s'
      celery fair demo --json | python -m json.tool

    On a real broker, the queues begin with a prefix of their own and are deleted at the end, also
    after Ctrl-C. No other queue is touched.

    Exit status: 0 if mails waited less with the fair worker, by their medians. 1 if not, 2 if there
    is no result, 130 after Ctrl-C.
    """
    from celery_fair.cli.demo.broker import Broker
    from celery_fair.cli.demo.demonstration import demonstrate
    from celery_fair.cli.demo.scenario import Scenario
    from celery_fair.cli.demo.worker import Setup
    from celery_fair.cli.interrupt import interruptible

    setup = Setup(Broker(broker), pool, Scenario(seconds, concurrency), target)
    setup.broker.check()
    try:
        with interruptible():
            good = demonstrate(setup, as_json)
    except KeyboardInterrupt:
        click.echo("Interrupted; the worker has ended, and its queues are deleted.", err=True)
        ctx.exit(130)
    ctx.exit(0 if good else 1)
