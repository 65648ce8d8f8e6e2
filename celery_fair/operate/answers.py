"""What workers have answered, sorted by what it means."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_NOT_MEANT = ("not_fair", "not_consumed")


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
    """

    raw: Mapping[str, Any] = field(default_factory=dict)
    good: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)

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

    def remarks(self) -> list[tuple[str, str]]:
        """Return what is to be known of workers, each with its name, and is no error."""
        others = [
            (worker, _left_out(worker, app))
            for worker, app in self.others.items()
            if worker not in self.errors
        ]
        return [*self.notes.items(), *others]


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
