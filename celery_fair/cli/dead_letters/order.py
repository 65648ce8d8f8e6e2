"""What an operator orders with ``replay`` or ``purge``, and what became of it."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

import click

from celery_fair.cli.dead_letters.filters import Filters, filtering
from celery_fair.cli.dead_letters.show import names_of
from celery_fair.cli.interrupt import stoppable
from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.plan import MAY_HAVE_STARTED, Copies, Plan, Report
from celery_fair.operate.text import escaped

__all__ = ["Order", "ordering"]

_NAMED = 20
"""Letters with the same outcome that are named one by one; of more there is a sum, and --json."""


@dataclass
class Order:
    """The options that both commands have."""

    ids: tuple[str, ...]
    all_: bool
    filters: Filters
    dry_run: bool
    yes: bool
    as_json: bool

    def wanted(self) -> Callable[[Letter], bool]:
        """Return what says of a letter whether it is meant.

        Raises:
            click.UsageError: the options do not say it.
        """
        if self.all_ and not self.ids:
            return self.filters.fit
        if self.ids and not self.all_ and not self.filters:
            names = frozenset(self.ids)
            return lambda letter: not names.isdisjoint(names_of(letter))
        raise click.UsageError(
            "name letters by their ids, which dead-letters list shows, or give --all, and with it"
            " filters such as --reason"
        )

    def chosen(self, plan: Plan) -> list[Copies]:
        """Return the messages that are meant."""
        return plan.named(dict.fromkeys(self.ids), names_of) if self.ids else plan.wanted()

    @property
    def asks(self) -> bool:
        """Whether there is somebody who can be asked, and is to be."""
        return not self.yes and sys.stdin.isatty()

    @contextmanager
    def running(self, plan: Plan, label: str) -> Iterator[dict[str, Callable[[], Any]]]:
        """Give what `replay` and `purge` ask and tell in between."""
        with stoppable() as stop:
            if not sys.stderr.isatty():
                yield {"stop": stop}
                return
            with click.progressbar(length=len(plan.todo), label=label, file=sys.stderr) as bar:
                yield {"stop": stop, "tick": lambda: bar.update(1)}

    def conclude(self, report: Report, done: str) -> None:
        """Print a report, and exit with 0 if all was done that was asked for, else with 1.

        Arguments:
            done: what was done, such as "replayed".
        """
        if self.as_json:
            told = {
                done: report.done,
                "refused": report.refused,
                "failed": report.failed,
                "duplicates": report.duplicates,
                **({"dry_run": True} if self.dry_run else {}),
            }
            click.echo(json.dumps(told, indent=2))
        else:
            _print(report, done, "would be " if self.dry_run else "")
        click.get_current_context().exit(0 if report.whole else 1)


def ordering(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command these options; call it with its context, an `Order` and its own."""

    @click.argument("ids", metavar="[ID]...", nargs=-1)
    @click.option("--all", "all_", is_flag=True, help="All letters, or all that the filters fit.")
    @filtering
    @click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
    @click.option("-y", "--yes", is_flag=True, help="Do not ask.")
    @click.option("-j", "--json", "as_json", is_flag=True, help="Print a report as JSON.")
    @click.pass_context
    @wraps(command)
    def ordered(ctx: click.Context, /, **given: Any) -> object:
        order = Order(**{field.name: given.pop(field.name) for field in fields(Order)})
        return command(ctx, order, **given)

    return ordered


def _print(report: Report, done: str, would: str) -> None:
    """Name each, if they are few; else say how many there are of each kind."""
    _each(report.done, f"{would}{done}")
    _each(report.duplicates, f"a duplicate of it {would or 'was '}removed")
    _each(report.refused, MAY_HAVE_STARTED, "Refused")
    by_trouble: dict[str, list[str]] = {}
    for name, text in report.failed.items():
        by_trouble.setdefault(text, []).append(name)
    for text, names in by_trouble.items():
        _each(names, escaped(text), "Error")
    duplicates = len(report.duplicates)
    counts = [
        f"{len(report.done)} {would}{done}",
        f"{duplicates} duplicates {would or 'were '}removed" if duplicates > _NAMED else "",
        f"{len(report.refused)} refused" if report.refused else "",
        f"{len(report.failed)} failed" if report.failed else "",
    ]
    click.echo(f"{', '.join(filter(None, counts))}.", err=True)


def _each(names: list[str], text: str, wrong: str = "") -> None:
    if len(names) <= _NAMED:
        for name in names:
            click.echo(f"{wrong and wrong + ': '}{escaped(name)}: {text}", err=bool(wrong))
    elif wrong:
        first = ", ".join(map(escaped, names[:3]))
        click.echo(f"{wrong}: {len(names)} letters, such as {first}: {text}", err=True)
