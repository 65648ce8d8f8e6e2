"""``celery fair dashboard``."""

from importlib.resources import files

import click

__all__ = ["dashboard"]


@click.command()
def dashboard() -> None:
    """Print the dashboard for Grafana, as JSON to import there.

    It is over the metrics of workers with fair_metrics. While importing, Grafana asks which of its
    Prometheus data sources to read.

    \b
    Examples:
      celery fair dashboard > celery-fair.json
    """
    place = files("celery_fair.worker.observe").joinpath("grafana-dashboard.json")
    click.echo(place.read_text(encoding="utf-8"), nl=False)
