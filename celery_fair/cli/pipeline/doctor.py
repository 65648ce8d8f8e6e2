"""``fair pipeline doctor``."""

from pathlib import Path

import click

from celery_fair.cli.options import Outcome, outcome

__all__ = ["doctor"]


@click.command()
@outcome("Print the findings as JSON.")
@click.option("--start", is_flag=True, help="Start a Spark session too, and let it compute.")
def doctor(start: bool) -> Outcome:
    """Say whether Spark can run here, and what to install if not.

    Looks for Java in JAVA_HOME, on PATH and in the usual places, for PySpark, pandas and PyArrow,
    and for memory.

    \b
    Examples:
      python -m celery_fair pipeline doctor
      python -m celery_fair pipeline doctor --start

    Exit status: 0; 1 if something is missing.
    """
    from celery_fair.pipeline.doctor import examined, started

    found = list(examined())
    if start and all(finding.good for finding in found):
        found.append(started())
    width = max(len(finding.topic) for finding in found)
    lines = []
    for finding in found:
        level = "ok" if finding.good else "wrong"
        mend = f"; {finding.mend}" if finding.mend else ""
        lines.append(f"{level:<6} {finding.topic:<{width}}  {finding.text}{mend}")
    lines.append(f"for spark-submit: {Path(__file__).with_name('submit.py')}")
    document = [finding._asdict() for finding in found]
    return Outcome(document, lines, good=all(finding.good for finding in found))
