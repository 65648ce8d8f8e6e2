"""What all pages have in common."""

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from sys import setswitchinterval
from typing import Any
from urllib.parse import urlencode

import click
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from celery_fair.brokers.broker import broker_of, shown
from celery_fair.operate.text import age, escaped, figure
from celery_fair.operate.workers import Workers
from celery_fair.settings import Settings
from celery_fair.web import sentences
from celery_fair.web.actions import ActionLog
from celery_fair.web.collector import Collector
from celery_fair.web.forms import Tokens
from celery_fair.web.log_collector import LogCollector
from celery_fair.web.orders import Orders

__all__ = ["PAGES", "Site", "message_of"]

PAGES = (
    ("queues", "Queues"),
    ("workers", "Workers"),
    ("keys", "Keys"),
    ("history", "History"),
    ("dead-letters", "Dead letters"),
    ("partitions", "Partitions"),
    ("doctor", "Doctor"),
    ("actions", "Actions"),
)


@dataclass
class Site:
    """An app as it is shown.

    Attributes:
        ctx: the command's context, whose app it is.
        timeout: seconds that workers' answers are waited for.
        record: reads the event log, if it is to be read.
        keeps: whether there is a Redis to keep what is changed, for workers that start later.
    """

    ctx: click.Context
    collector: Collector
    log: ActionLog
    orders: Orders
    timeout: float = 1.0
    record: LogCollector | None = None
    tokens: Tokens = field(default_factory=Tokens)

    def __post_init__(self) -> None:
        self.app = self.ctx.obj.app
        self.settings = Settings.of(self.app)
        unopened = self.app.connection_for_write()
        self.broker = shown(unopened)
        self.keeps = broker_of(unopened).keeps_tags or self.settings.key_store is not None
        self.templates = _templates()

    def warm_up(self) -> None:
        """Make ready what the first visitor would wait for, and what lasts as long as the server.

        That is looked through for garbage no more: it would hold up a page each time. And while
        answers are taken in, a page need not wait five milliseconds for each of its turns.
        """
        setswitchinterval(0.001)
        for name in self.templates.list_templates():
            self.templates.get_template(name)
        gc.collect()
        gc.freeze()

    @contextmanager
    def workers(self) -> Iterator[Workers]:
        """Give what asks the workers, on a connection of its own."""
        asking = Workers(self.app, (), self.timeout)
        try:
            yield asking
        finally:
            asking.close()

    def page(
        self, request: Request, template: str, status: int = 200, **context: Any
    ) -> HTMLResponse:
        """Return a page."""
        return HTMLResponse(self.html(request, template, **context), status)

    def html(self, request: Request, template: str, **context: Any) -> str:
        """Return a template's text, filled in."""
        visitor, root = request.state.visitor, request.scope.get("root_path", "")
        here = request.url.path.removeprefix(root).strip("/")
        query = dict(request.query_params)
        if here == "live":  # a part of a page, for that page
            here = query.pop("of", "")
        urls = _Urls(root, here, query)
        return self.templates.get_template(template).render(
            pages=PAGES,
            here=here,
            visitor=visitor,
            token=self.tokens.of(visitor),
            broker=self.broker,
            keeps=self.keeps,
            app_name=self.app.main or "",
            url=urls.of,
            link=urls.link,
            live=urls.live,
            query=query,
            **context,
        )


class _Urls:
    """Addresses of this site.

    Arguments:
        root: what each path begins with.
        here: the page's own path.
        query: what its own address asks for.
    """

    def __init__(self, root: str, here: str, query: Mapping[str, str]) -> None:
        self._root = root
        self._here = here
        self._query = query

    def of(self, *path: str, **query: Any) -> str:
        """Return a page's address."""
        return self._address("/".join(path), query)

    def link(self, **changes: Any) -> str:
        """Return this page's own address, with something else asked for."""
        return self._address(self._here, {**self._query, **changes})

    def live(self, part: str) -> str:
        """Return where a part of this page comes from as it changes."""
        return self._address("live", {**self._query, "of": part})

    def _address(self, path: str, query: Mapping[str, Any]) -> str:
        given = {name: value for name, value in query.items() if value not in {None, ""}}
        words = f"?{urlencode(given)}" if given else ""
        return f"{self._root}/{path}{words}"


def message_of(error: Exception) -> str:
    """Return what an error says."""
    return str(error) or type(error).__name__


def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("celery_fair.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = {
        "figure": lambda value: "–" if value is None else figure(value),
        "seconds": lambda value: "–" if value is None else sentences.span(value),
        "percent": sentences.percent,
        "whole": lambda value: "–" if value is None else f"{value:,}",
        "when": _when,
        "json": lambda value: json.dumps(value, ensure_ascii=False, default=str),
        "lines": lambda text: Markup("\n").join(map(escaped, text.split("\n"))),
        "held": sentences.held,
        "limits": sentences.limits,
        "age": lambda time: "–" if time is None else age(time, datetime.now(UTC)),
    }
    environment.filters.update(filters)
    return environment


def _when(time: datetime | float | None) -> str:
    if time is None:
        return "–"
    try:
        if isinstance(time, int | float):
            time = datetime.fromtimestamp(time, UTC)
        return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # a record may say anything
        return f"{time}, which no calendar has"


def _printable(value: Any) -> Any:
    """Have control characters, and those that turn the direction of writing, shown as escapes."""
    return value if hasattr(value, "__html__") else escaped(str(value))
