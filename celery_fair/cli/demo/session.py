"""All runs of one command, shown while they go, and their outcome."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from celery_fair.cli.demo.errors import DemoError
from celery_fair.cli.demo.page import page
from celery_fair.cli.demo.report import report
from celery_fair.cli.demo.run import Result, Setup, run
from celery_fair.cli.demo.screen import Screen, suitable_screen
from celery_fair.cli.demo.workload import Workload

__all__ = ["demonstrate"]

_ELSE = "file, or use --no-html"


def demonstrate(
    setup: Setup, workloads: Sequence[Workload], path: Path | None, as_json: bool
) -> bool:
    """Run the workloads, show and write the outcome; return whether all were fair."""
    if path is not None:
        _try_to_write(path)  # better refused now than after the runs
    if setup.event_log is not None:
        with _writing("--event-log", setup.event_log, "folder, or leave it out"):
            setup.event_log.mkdir(parents=True, exist_ok=True)
    screen = suitable_screen(as_json)
    screen.introduce(setup, workloads[0].messages)
    try:
        results = [_show(screen, setup, workload) for workload in workloads]
    finally:
        screen.close()
    screen.conclude(results)
    if path is not None:
        with _writing("--html", path, _ELSE):
            path.write_text(page(setup, results), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(report(setup, results, path), indent=2))
    else:
        if path is not None:
            click.echo(f"Shares over time: {path}")
        if setup.event_log is not None:
            click.echo(f"Event log: {setup.event_log}")
    return all(result.shares.fair for result in results)


def _show(screen: Screen, setup: Setup, workload: Workload) -> Result:
    screen.begin(workload)
    result = run(setup, workload, screen.progress)
    screen.end(result)
    return result


def _try_to_write(path: Path) -> None:
    new = not path.exists()
    with _writing("--html", path, _ELSE), path.open("ab"):
        pass
    if new:
        path.unlink()


@contextmanager
def _writing(option: str, path: Path, other: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise DemoError(
            f"cannot write {option} {path}: {exc.strerror}; name another {other}"
        ) from exc
