"""What became of the letters, and the exit status that tells."""

import json

import click

from celery_fair.cli.escaped import escaped
from celery_fair.letters.replay import MAY_HAVE_STARTED, Report

__all__ = ["conclude"]


def conclude(ctx: click.Context, report: Report, done: str, as_json: bool, dry_run: bool) -> None:
    """Print a report, and exit with 0 if all was done that was asked for, else with 1.

    Arguments:
        done: what was done, such as "replayed".
    """
    if as_json:
        click.echo(json.dumps(_object(report, done, dry_run), indent=2))
    else:
        _print(report, done, dry_run)
    ctx.exit(0 if report.whole else 1)


def _object(report: Report, done: str, dry_run: bool) -> dict[str, object]:
    return {
        done: report.done,
        "refused": report.refused,
        "failed": report.failed,
        "duplicates": report.duplicates,
        **({"dry_run": True} if dry_run else {}),
    }


def _print(report: Report, done: str, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    for name in report.done:
        click.echo(f"{escaped(name)}: {would}{done}")
    for name in report.duplicates:
        click.echo(f"{escaped(name)}: a duplicate of it {would or 'was '}removed")
    for name in report.refused:
        click.echo(f"Refused: {escaped(name)}: {MAY_HAVE_STARTED}", err=True)
    for name, text in report.failed.items():
        click.echo(f"Error: {escaped(name)}: {escaped(text)}", err=True)
    counts = [
        f"{len(report.done)} {would}{done}",
        f"{len(report.refused)} refused" if report.refused else "",
        f"{len(report.failed)} failed" if report.failed else "",
    ]
    click.echo(f"{', '.join(filter(None, counts))}.", err=True)
