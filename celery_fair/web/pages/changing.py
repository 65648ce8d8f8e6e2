"""Changes of queues and keys: shown first, then made, and one step back."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response

from celery_fair.operate.errors import InvalidRequestError
from celery_fair.operate.text import figure
from celery_fair.web.forms import Form
from celery_fair.web.site import Site, redirect

_NAMES = ("name", "queue", "key")
"""Fields that say what is changed."""


class Change(ABC):
    """Something that is to be changed, as a form says.

    Attributes:
        path: of the page that it is asked for on.
        acts: what can be done besides giving it options.
        known: options that it can be given.
        act: what is to be done; "" to give it `options`.
        what: that, in a few words.
        about: what is changed.
        fields: of the form.

    Raises:
        InvalidRequestError: it says what cannot be.
    """

    path: ClassVar[str]
    acts: ClassVar[Sequence[str]]
    known: ClassVar[Sequence[str]]
    about: str

    def __init__(self, site: Site, form: Form) -> None:
        self.site = site
        asked = {name: form.get(name, "").strip() for name in ("act", *self.known, "keep")}
        named = {name: form.get(name, "") for name in _NAMES}
        self.fields = {name: text for name, text in (named | asked).items() if text}
        self.act = asked["act"]
        if self.act and self.act not in self.acts:
            raise InvalidRequestError(f"{self.act!r} is none of {', '.join(self.acts)}")
        self.queue = named["queue"] or named["name"]
        words = [f"{name}={asked[name]}" for name in self.known if asked[name]]
        if not (words or self.act):
            raise InvalidRequestError("nothing was filled in: say what is to be changed")
        self.options = {} if self.act else self.parsed(words)
        self.what = self.act or written(self.options)

    @abstractmethod
    def parsed(self, words: Sequence[str]) -> dict[str, Any]:
        """Return options that are written ``name=value``."""

    @abstractmethod
    def prospect(self) -> dict[str, Any]:
        """Return what fills in the page that says what it will do; nothing is changed.

        Its `rows` are at which worker what becomes what.
        """

    @abstractmethod
    def do(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Do it; return what became of it, and the fields of a form that takes it back, if any."""


def change(
    site: Site, kind: Callable[[Site, Form], Change], request: Request, form: Form
) -> Response:
    """Show what a change will do; or, if that has been seen, make it."""
    wanted = kind(site, form)
    if form.get("step") != "do":
        return site.page(request, "change.html", change=wanted, **wanted.prospect())
    who = request.state.visitor.name
    action = site.log.begin(who, wanted.what, wanted.about, wanted.fields)
    try:
        result, back = wanted.do()
    except Exception as exc:
        site.log.end(action, {"all": f"error: {str(exc) or type(exc).__name__}"})
        raise
    named = {name: wanted.fields[name] for name in _NAMES if name in wanted.fields}
    site.log.end(action, result, back and {"path": wanted.path, **named, **back})
    return redirect(request, "actions")


def as_before(now: Mapping[str, Any], names: Collection[str]) -> dict[str, str]:
    """Return the fields of a form that gives options what they are now."""
    fields = {name: "none" if now[name] is None else str(now[name]) for name in names}
    if now["rate"] is None:
        fields.pop("burst", None)  # which is of a rate
    elif "rate" in names:
        fields |= {"rate": f"{now['rate']}/s", "burst": str(now["burst"])}
    return fields


def written(options: Mapping[str, Any]) -> str:
    """Return options in words."""
    return ", ".join(f"{name}={_written(name, value)}" for name, value in options.items())


def _written(name: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return "none" if value is None else str(value)
    return f"{figure(value)}/s" if name == "rate" else figure(value)
