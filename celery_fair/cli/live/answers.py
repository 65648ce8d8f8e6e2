"""What workers have answered, sorted by what it means for the command."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import click

from celery_fair.cli.escaped import escaped
from celery_fair.cli.options import dumped

__all__ = ["NOT_ALONE", "Answers", "NoAnswer", "conclude", "show"]

NOT_ALONE = (
    "more than one worker has this name, and only one of them is seen here, or told anything;"
    " start each with a name of its own, celery worker -n NAME@%h"
)

_NOT_MEANT = ("not_fair", "not_consumed")


class NoAnswer(click.ClickException):
    """Nobody has answered. The message says what was asked, whom, and what to check."""

    exit_code = 1

    def __init__(self, message: str, silent: bool = False) -> None:
        """Arguments:
        silent: whether the question was asked, and nobody has said anything.
        """
        super().__init__(message)
        self.silent = silent


@dataclass(frozen=True)
class Answers:
    """Made by `Answers.of`. All are by the worker's name.

    Attributes:
        raw: every answer as it came.
        good: the answers to what was asked.
        notes: why a worker was not meant: it consumes other queues, or is not a fair one. That is
            an error if it was named, or if nobody else has an answer.
        errors: what is wrong, as the worker says.
        others: workers of other apps that have answered, too, and the names of their apps.
        twice: names that more than one worker has: no more than one of their answers is here, and
            where they have one mailbox, no more than one of them was asked, or told, anything.
    """

    raw: Mapping[str, Any]
    good: Mapping[str, Any]
    notes: Mapping[str, str]
    errors: dict[str, str]
    others: Mapping[str, str] = field(default_factory=dict)
    twice: frozenset[str] = frozenset()

    @classmethod
    def of(cls, raw: Mapping[str, Any], named: Iterable[str], timeout: float) -> "Answers":
        """Sort the answers of workers; those `named` were asked by name."""
        named = set(named)
        good, notes, errors = {}, {}, {}
        for worker, answer in sorted(raw.items()):
            error, meant = _error(answer)
            if error is None:
                good[worker] = answer
            elif meant or worker in named:
                errors[worker] = error
            else:
                notes[worker] = error
        for worker in sorted(named - raw.keys()):
            errors[worker] = f"no answer within {timeout:g} s"
        if not good and not errors:
            notes, errors = {}, notes
        return cls(raw, good, notes, errors)

    def of_app(self, app: str, queues: Collection[str], named: Collection[str]) -> "Answers":
        """Return the answers to ``fair_status`` without those of workers of other apps.

        Whoever uses the same broker hears the question. A worker is another app's if that has
        another name, and the worker consumes none of this app's queues: two apps of one name, and
        two names of one app, for its publishers and its workers, are not told apart by that name.

        Arguments:
            app, queues: its name, and those of its queues.
            named: workers that were asked by name, and belong to whoever asks.
        """
        others = {
            worker: name
            for worker, rows in self.good.items()
            if worker not in named and (name := _another(rows, app, queues))
        }
        good = {worker: rows for worker, rows in self.good.items() if worker not in others}
        errors = self.errors
        if others and not good and not errors:
            errors = {worker: _left_out(worker, name) for worker, name in others.items()}
        return replace(self, good=good, errors=errors, others=others)


def _another(rows: Mapping[str, Mapping[str, Any]], app: str, queues: Collection[str]) -> str:
    """Return the name of the other app that a worker is of; "" if it is, or may be, of this."""
    names = {str(row.get("app") or "") for row in rows.values()}
    if not app or len(names) != 1 or not rows.keys().isdisjoint(queues):
        return ""
    (name,) = names
    return "" if name == app else name


def _left_out(worker: str, app: str) -> str:
    return f"is a worker of another app, {app!r}, and left out; -d {worker} asks it"


def _error(answer: Any) -> tuple[str | None, bool]:
    """Return what a worker complains of, if it does, and whether the question was meant for it."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, str):
        return None, True
    if error.startswith("KeyError('fair_"):  # as Celery answers to what it does not know
        return "this worker has no FairConsumerStep", False
    return error, answer.get("code") not in _NOT_MEANT


def show(
    ctx: click.Context,
    answers: Answers,
    as_json: bool,
    line: Callable[[Any], str] = lambda answer: str(answer["ok"]),
) -> None:
    """Print a line for each worker's good answer, or all answers as JSON; then `conclude`."""
    if as_json:
        click.echo(dumped(answers.raw, indent=2))
    else:
        for worker, answer in answers.good.items():
            click.echo(escaped(f"{worker}: {line(answer)}"))
    conclude(ctx, answers)


def conclude(ctx: click.Context, answers: Answers) -> None:
    """Say on standard error what was not well, and exit with the status that tells."""
    for worker, text in answers.notes.items():
        click.echo(escaped(f"Note: {worker}: {text}"), err=True)
    for worker, app in answers.others.items():
        if worker not in answers.errors:
            click.echo(escaped(f"Note: {worker}: {_left_out(worker, app)}"), err=True)
    for worker in sorted(answers.twice):
        click.echo(escaped(f"Note: {worker}: {NOT_ALONE}"), err=True)
    for worker, text in answers.errors.items():
        click.echo(escaped(f"Error: {worker}: {text}"), err=True)
    ctx.exit(1 if answers.errors else 0)
