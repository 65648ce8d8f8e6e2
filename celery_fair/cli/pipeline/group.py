"""``fair pipeline``: its commands, each imported when it is used."""

import click

from celery_fair.cli.groups import LazyGroup

__all__ = ["pipeline"]

_COMMANDS = {
    "audit": "celery_fair.cli.pipeline.audit:audit",
    "ingest": "celery_fair.cli.pipeline.ingest:ingest",
    "fairness": "celery_fair.cli.pipeline.fairness:fairness",
    "waits": "celery_fair.cli.pipeline.waits:waits",
    "costs": "celery_fair.cli.pipeline.costs:costs",
    "whatif": "celery_fair.cli.pipeline.whatif:whatif",
    "advise": "celery_fair.cli.pipeline.advise:advise",
    "report": "celery_fair.cli.pipeline.report:report",
    "stream": "celery_fair.cli.pipeline.stream:stream",
    "doctor": "celery_fair.cli.pipeline.doctor:doctor",
    "seal": "celery_fair.cli.pipeline.seal:seal",
}


@click.group(cls=LazyGroup, where=_COMMANDS)
def pipeline() -> None:
    """Ask the workers' event logs: what was fair, what waited, what was lost, what would help.

    Workers with fair_event_log write down what becomes of each message. `ingest` reads these logs
    into a warehouse, a folder of Parquet tables; the other commands ask the warehouse. They run on
    Spark: on this machine, with --master on a cluster, or under spark-submit.

    \b
    Examples:
      python -m celery_fair pipeline doctor
      python -m celery_fair pipeline ingest /var/log/celery-fair warehouse
      python -m celery_fair pipeline audit warehouse --fail-on duplicate,lost
    """
