"""``fair pipeline``: its commands, each imported when it is used, and whether Spark can run here.

For spark-submit, which wants a file, it is this one: ``spark-submit group.py audit warehouse``.
``python -m celery_fair pipeline doctor`` prints its path.
"""

from pathlib import Path

import click

from celery_fair.cli.groups import LazyGroup
from celery_fair.cli.options import Outcome, outcome

_COMMANDS = {
    "audit": "celery_fair.cli.pipeline.audit:audit",
    "ingest": "celery_fair.cli.pipeline.ingest_and_report:ingest",
    "fairness": "celery_fair.cli.pipeline.fairness:fairness",
    "waits": "celery_fair.cli.pipeline.waits_and_costs:waits",
    "costs": "celery_fair.cli.pipeline.waits_and_costs:costs",
    "whatif": "celery_fair.cli.pipeline.replay:whatif",
    "report": "celery_fair.cli.pipeline.ingest_and_report:report",
    "doctor": "celery_fair.cli.pipeline.group:doctor",
    "seal": "celery_fair.cli.pipeline.ingest_and_report:seal",
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


@click.command()
@outcome("Print the findings as JSON.")
def doctor() -> Outcome:
    """Say whether Spark can run here, and what to install if not.

    Looks for Java in JAVA_HOME, on PATH and in the usual places, for PySpark, pandas and PyArrow.

    \b
    Example:
      python -m celery_fair pipeline doctor

    Exit status: 0; 1 if something is missing.
    """
    from celery_fair.pipeline.doctor import examined

    found = list(examined())
    lines = [f"{'ok' if good else 'wrong':<6} {topic:<8} {text}" for topic, good, text in found]
    lines.append(f"for spark-submit: {Path(__file__)}")
    document = [finding._asdict() for finding in found]
    return Outcome(document, lines, good=all(finding.good for finding in found))


if __name__ == "__main__":
    pipeline(prog_name="spark-submit group.py")
