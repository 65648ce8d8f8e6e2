"""``fair pipeline doctor``."""

from pathlib import Path

import click

from celery_fair.cli.pipeline.showing import show_json

__all__ = ["doctor"]


@click.command()
@click.option("-j", "--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--start", is_flag=True, help="Start a Spark session too, and let it compute.")
def doctor(as_json: bool, start: bool) -> None:
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
    if as_json:
        show_json([finding._asdict() for finding in found])
    else:
        rows = [["ok" if each.good else "wrong", each.topic] for each in found]
        width = max(len(topic) for _, topic in rows)
        for (level, topic), finding in zip(rows, found, strict=True):
            mend = f"; {finding.mend}" if finding.mend else ""
            click.echo(f"{level:<6} {topic:<{width}}  {finding.text}{mend}")
        click.echo(f"for spark-submit: {Path(__file__).with_name('submit.py')}")
    raise click.exceptions.Exit(0 if all(finding.good for finding in found) else 1)
