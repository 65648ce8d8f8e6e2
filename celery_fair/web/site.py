"""What all pages have in common."""

import gc
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from sys import setswitchinterval
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from celery_fair.brokers.broker import broker_of, shown
from celery_fair.operate.sums import aim_in_words
from celery_fair.operate.text import age, duration, escaped, figure
from celery_fair.operate.workers import Workers
from celery_fair.settings import Settings
from celery_fair.web.actions import ActionLog
from celery_fair.web.collector import Collector
from celery_fair.web.orders import Orders

_ANSWERS = 500_000
"""Objects; a hundred workers with a thousand queues each answer a hundred thousand rows."""


@dataclass
class Site:
    """An app as it is shown.

    Attributes:
        timeout: seconds that workers' answers are waited for.
        keeps: whether there is a Redis to keep what is changed, for workers that start later.
    """

    app: Any
    collector: Collector
    log: ActionLog
    orders: Orders
    timeout: float = 1.0

    def __post_init__(self) -> None:
        self.settings = Settings.of(self.app)
        unopened = self.app.connection_for_write()
        self.broker = shown(unopened)
        self.keeps = broker_of(unopened).keeps_tags or self.settings.key_store is not None
        self.templates = templates()

    def warm_up(self) -> None:
        """Make ready what the first visitor would wait for, and what lasts as long as the server.

        That is looked through for garbage no more: it would hold up a page each time. Nor is
        anything until there is more of it than very many workers answer at once, which refers to
        itself in no circle. And while answers are taken in, a page need not wait five milliseconds
        for each of its turns.
        """
        setswitchinterval(0.001)
        for name in self.templates.list_templates():
            self.templates.get_template(name)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_ANSWERS)

    def workers(self) -> "closing[Workers]":
        """Give what asks the workers, on a connection of its own."""
        return closing(Workers(self.app, (), self.timeout))

    def page(
        self, request: Request, template: str, status: int = 200, **context: Any
    ) -> HTMLResponse:
        """Return a page."""
        return HTMLResponse(self.html(request, template, **context), status)

    def html(self, request: Request, template: str, **context: Any) -> str:
        """Return a template's text, filled in.

        Besides its own context a template has `url`, a page's address; `link`, this page's own with
        something else asked for; and `live`, where a part of this page comes from as it changes.
        """
        visitor, root = request.state.visitor, request.scope.get("root_path", "")
        here = request.url.path.removeprefix(root).strip("/")
        query = dict(request.query_params)
        if here == "live":  # a part of a page, for that page
            here = query.pop("of", "")

        def url(*path: str, **asked: Any) -> str:
            given = {name: value for name, value in asked.items() if value not in {None, ""}}
            return f"{root}/{'/'.join(path)}{'?' if given else ''}{urlencode(given)}"

        return self.templates.get_template(template).render(
            here=here,
            visitor=visitor,
            broker=self.broker,
            keeps=self.keeps,
            app_name=self.app.main or "",
            url=url,
            link=lambda **changes: url(here, **{**query, **changes}),
            live=lambda part: url("live", **{**query, "of": part}),
            query=query,
            **context,
        )


def redirect(request: Request, path: str) -> RedirectResponse:
    """Send a browser to a page, as after a form."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}/{path}", 303)


def templates() -> Environment:
    """Return the templates, which escape whatever they are given."""
    environment = Environment(
        loader=PackageLoader("celery_fair.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[[Any], str]] = {
        "figure": figure,
        "seconds": lambda value: f"{1000 * value:.0f} ms" if value < 1 else duration(value),
        "percent": lambda part: f"{100 * part:.1f} %",
        "whole": "{:,}".format,
        "when": _when,
        "age": lambda time: age(time, datetime.now(UTC)),
    }
    environment.filters.update({name: _or_dash(each) for name, each in filters.items()})
    environment.filters["aim"] = aim_in_words
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False, default=str)
    environment.filters["lines"] = lambda text: Markup("\n").join(map(escaped, text.split("\n")))
    return environment


def _or_dash(shown: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "–" if value is None else shown(value)


def _when(time: datetime | float) -> str:
    try:
        if isinstance(time, int | float):
            time = datetime.fromtimestamp(time, UTC)
        return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # a record may say anything
        return f"{time}, which no calendar has"


def _printable(value: Any) -> Any:
    """Have control characters, and those that turn the direction of writing, shown as escapes."""
    return value if hasattr(value, "__html__") else escaped(str(value))
