"""A change: what it will do, doing it, and one step back."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from celery_fair.operate.errors import OperateError
from celery_fair.operate.text import figure
from celery_fair.web.actions import Undo
from celery_fair.web.forms import Form

__all__ = [
    "Change",
    "Prospect",
    "RefusedError",
    "act_of",
    "cap_effect",
    "fields_of",
    "rate_effect",
    "words_of",
    "written",
]


class RefusedError(OperateError):
    """A change cannot be made; the message says why, and nothing has happened."""


class Prospect(NamedTuple):
    """What a change will do.

    Attributes:
        effects: in sentences.
        rows: at which worker what becomes what.
    """

    effects: Sequence[str]
    rows: Sequence[tuple[str, str, str]]


class Change(ABC):
    """Something that is to be changed.

    Attributes:
        what: in a few words.
        about: what is changed.
        fields: of the form that asks for it.
        path: of the page that it is asked for on.
    """

    what: str
    about: str
    fields: Mapping[str, str]
    path: str

    @abstractmethod
    def prospect(self) -> Prospect:
        """Say what it will do; nothing is changed.

        Raises:
            OperateError: it cannot be done.
        """

    @abstractmethod
    def do(self) -> tuple[Mapping[str, str], Undo | None]:
        """Do it; return what became of it, and what takes it back.

        Raises:
            OperateError: it cannot be done.
        """


def act_of(form: Form, *acts: str) -> str:
    act = form.text("act")
    if act and act not in acts:
        raise RefusedError(f"{act!r} is none of {', '.join(acts)}")
    return act


def fields_of(form: Form, options: Sequence[str]) -> dict[str, str]:
    names = ("act", *options)
    return {"name": form.exact("name"), **{n: form.text(n) for n in names if form.text(n)}}


def words_of(fields: Mapping[str, str], options: Sequence[str]) -> list[str]:
    words = [f"{name}={fields[name]}" for name in options if name in fields]
    if not words:
        raise RefusedError("nothing was filled in: say what is to be changed")
    return words


def written(options: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={'none' if value is None else _number(name, value)}"
        for name, value in options.items()
    )


def _number(name: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{figure(value)}/s" if name == "rate" else figure(value)


def rate_effect(rate: Any, now: float | None, workers: int) -> str:
    if rate is None:
        return "It may start any number a second."
    today = "" if now is None else f"; {figure(now)} a second are started now"
    said = f"{figure(rate)}/s" if isinstance(rate, int | float) else rate
    where = f" at each of its {workers} workers, or at all together if its scope is the cluster"
    return f"It starts at most {said}{where if workers > 1 else ''}{today}."


def cap_effect(cap: Any, running: int) -> str:
    if cap is None:
        return "Any number of its tasks may run at once."
    return (
        f"At most {cap} of its tasks run at once; {running:,} run now, and end as they would have."
    )
