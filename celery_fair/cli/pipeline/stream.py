"""``fair pipeline stream``."""

import json
from pathlib import Path
from typing import Any

import click

from celery_fair.cli.interrupt import stoppable
from celery_fair.cli.options import FOLDER, NUMBER, SECONDS, moment
from celery_fair.cli.pipeline.context import Context, see_to_it_that_it_can_be_written, with_spark
from celery_fair.operate.text import escaped
from celery_fair.pipeline.stream.watches import Limits

_FORM = "QUEUE=RATE, such as bulk=10/s, or QUEUE=RATE:BURST"


def _leashes(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[float, float]]:
    from celery_fair.core.token_bucket import parse_rate

    leashes = {}
    for value in values:
        queue, _, limit = value.rpartition("=")
        rate, _, burst = limit.partition(":")
        try:
            leash = parse_rate(rate), NUMBER.convert(burst or "1", None, None)
        except (ValueError, click.BadParameter) as exc:
            raise click.BadParameter(f"{value!r} is not {_FORM}: {exc}") from exc
        if not queue:
            raise click.BadParameter(f"{value!r} is not {_FORM}: it names no queue")
        if leash[1] < 1:
            raise click.BadParameter(f"{value!r}: a burst is one message at least")
        if queue in leashes:
            raise click.BadParameter(f"{queue!r} has two leashes: keep one of them")
        leashes[queue] = leash
    return leashes


@click.command()
@click.argument("logs", type=FOLDER)
@click.argument("out", type=FOLDER)
@click.option(
    "--leash",
    "leashes",
    metavar="QUEUE=RATE[:BURST]",
    multiple=True,
    callback=_leashes,
    help="A leash to watch, such as bulk=10/s:5 (a burst of 1 if none is said); each node has its"
    " own. May be given again.",
)
@click.option(
    "--starvation",
    metavar="SECONDS",
    type=SECONDS,
    default=Limits.starvation,
    help="How long a queue may be empty here and backlogged at the broker.",
)
@click.option(
    "--silence",
    metavar="HEARTBEATS",
    type=SECONDS,
    default=Limits.silence,
    help="Heartbeats that may go missing.",
)
@click.option(
    "--lag",
    metavar="SECONDS",
    type=SECONDS,
    default=Limits.lag,
    help="How long a worker may take to seal a file.",
)
@click.option(
    "--every",
    type=SECONDS,
    default=10.0,
    help="How often to look for new files.",
)
@click.option("--once", is_flag=True, help="Read what is there, and end.")
@with_spark
def stream(
    context: Context,
    logs: Path,
    out: Path,
    leashes: dict[str, tuple[float, float]],
    starvation: float,
    silence: float,
    lag: float,
    every: float,
    once: bool,
) -> None:
    """Watch the logs below LOGS, and write alerts to OUT.

    \b
    duplicate-start  an attempt at a task was started twice
    starvation       a queue was empty at a worker, and backlogged at the broker, for too long
    leash-breach     a queue had more starts than its leash allows
    silence          a process has neither an end nor a heartbeat

    Alerts are printed, with --json as one JSON object a line, and written to OUT, as JSON lines in
    a folder for each batch that has any. OUT also has the checkpoint: however this command ended,
    with the same OUT it goes on where it stopped, and writes no alert twice. (It may print one
    twice.)

    \b
    Examples:
      python -m celery_fair pipeline stream /var/log/celery-fair alerts --leash bulk=10/s:5
      python -m celery_fair pipeline stream logs alerts --once --json

    Ctrl-C ends it.
    """
    from celery_fair.pipeline.errors import PipelineError
    from celery_fair.pipeline.stream.alerts import follow, has_read_all, start_alerts

    if not logs.is_dir():
        raise PipelineError(f"{logs} is no folder: give the one that fair_event_log names")
    if out.absolute().is_relative_to(logs.absolute()):
        raise PipelineError(
            f"{out} is in the folder of the logs: give another for alerts and the checkpoint"
        )
    see_to_it_that_it_can_be_written(out)
    limits = Limits(starvation, silence, lag, leashes=leashes)

    told = 0

    def tell(alert: dict[str, Any]) -> None:
        nonlocal told
        told += 1
        at = moment(alert["at"])
        line = escaped(f"{at} {alert['alert']}: {alert['key']}: {alert['text']}")
        click.echo(json.dumps(alert) if context.as_json else line)

    query = start_alerts(context.spark(), logs, out, limits, 0 if once else every, tell)
    with stoppable() as stop:
        context.say(f"watching {logs}")
        follow(query, lambda: stop() or (once and has_read_all(query)))
        if stop():
            context.say(f"ended; the next run with {out} goes on from here")
        elif not told:
            context.say(f"no alert, with what is new in {logs}")
