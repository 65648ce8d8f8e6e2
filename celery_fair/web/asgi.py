"""The application: pages, their parts again as they change, and what forms do.

While a page is open, its changing part is sent again and again, as server-sent events. Those who
look at the same thing are sent the same text, which is made once.
"""

import json
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import Any

from celery.exceptions import ImproperlyConfigured
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from celery_fair.operate.errors import InvalidRequestError, OperateError
from celery_fair.web.forms import Form, changing
from celery_fair.web.guard import Guard, Visitors
from celery_fair.web.pages.changing import change
from celery_fair.web.pages.keys import KeyChange, KeyPages
from celery_fair.web.pages.letters import LetterPages
from celery_fair.web.pages.queues import QueueChange, QueuePages
from celery_fair.web.pages.states import StatePages
from celery_fair.web.site import Site, redirect

logger = logging.getLogger(__name__)

Fill = Callable[[Mapping[str, str]], dict[str, Any]]
"""Given what an address asks for, returns what fills in a page's template, and its part's."""

Lines = Callable[[Mapping[str, str], Any], tuple[Any, Any]]
"""Given what an address asks for, and what was drawn, None at first, returns what is drawn now, and
what is sent of it, if anything."""


def application(site: Site, visitors: Visitors, hosts: Collection[str]) -> Starlette:
    """Return the ASGI application.

    Arguments:
        hosts: as `Guard`.
    """
    queues, keys = QueuePages(site), KeyPages(site)
    letters, states = LetterPages(site), StatePages(site)
    parts: dict[str, Fill] = {
        "queues": queues.queues,
        "queue": queues.queue,
        "workers": queues.workers,
        "worker": queues.worker,
        "keys": keys.keys,
        "order": letters.order,
        "actions": states.actions,
    }
    others: dict[str, Fill] = {
        "key": keys.key,
        "dead-letters": letters.letters,
        "dead-letter": letters.letter,
        "partitions": states.partitions,
        "doctor": states.doctor,
    }
    lines: dict[str, Lines] = {
        "queues": queues.lines,
        "queue": queues.lines,
    }
    acts: dict[str, Callable[[Request, Form], Response]] = {
        "queue": partial(change, site, QueueChange),
        "key": partial(change, site, KeyChange),
        "dead-letters": letters.plan,
        "order": letters.begin,
        "order/stop": letters.stop,
    }

    def show_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = error.status_code
        return site.page(request, "error.html", code, code=code, text=error.detail)

    return Starlette(
        routes=[
            Route("/", partial(redirect, path="queues")),
            *(
                Route(f"/{path}", changing(_saying(act)), methods=["POST"])
                for path, act in acts.items()
            ),
            *(
                Route(f"/{name}", partial(_show, site, name, _saying(fill)))
                for name, fill in (parts | others).items()
            ),
            Route("/live", Live(site, parts, lines).respond),
            Mount("/static", _Static(directory=Path(__file__).parent / "static")),
        ],
        middleware=[Middleware(Guard, visitors=visitors, hosts=hosts)],
        exception_handlers={HTTPException: show_error},
    )


class Live:
    """Sends parts and lines.

    Arguments:
        parts: those that there are, by the page's name.
        lines: of pages that have some.
    """

    def __init__(self, site: Site, parts: Mapping[str, Fill], lines: Mapping[str, Lines]) -> None:
        self._site = site
        self._parts = {name: _saying(fill) for name, fill in parts.items()}
        self._lines = lines
        self._made: dict[tuple[int, str, bool, str], str] = {}

    async def respond(self, request: Request) -> Response:
        """Send the part that the address names, and its lines, each time that workers answer."""
        name = request.query_params.get("of", "")
        if name not in self._parts:
            raise HTTPException(404, "There is no such page.")
        return EventSourceResponse(self._events(request, name), ping=15)

    async def _events(self, request: Request, name: str) -> AsyncIterator[dict[str, str]]:
        query = dict(request.query_params)
        draw, drawn = self._lines.get(name), None
        number = 0
        while True:
            number = (await self._site.collector.after(number)).number
            try:
                text = await run_in_threadpool(self._text, request, name, query, number)
            except HTTPException as exc:
                text = json.dumps({"trouble": exc.detail})
            yield {"event": "part", "data": text}
            if draw is not None:
                drawn, told = await run_in_threadpool(draw, query, drawn)
                if told is not None:
                    yield {"event": "lines", "data": json.dumps(told)}

    def _text(self, request: Request, name: str, query: Mapping[str, str], number: int) -> str:
        made, visitor = self._made, request.state.visitor
        whose = visitor.name if name == "order" else ""  # who planned it may begin it
        key = (number, f"{name}?{sorted(query.items())}", visitor.may_change, whose)
        if key not in made:
            html = self._site.html(request, f"parts/{name}.html", **self._parts[name](query))
            lately = {key: text for key, text in self._made.items() if key[0] >= number - 1}
            made = self._made = lately | {key: json.dumps({"html": html})}
        return made[key]


class _Static(StaticFiles):
    """Files of the package, which a browser may keep for an hour."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["cache-control"] = "private, max-age=3600"
        return response


def _show(site: Site, name: str, fill: Fill, request: Request) -> Response:
    return site.page(request, f"{name}.html", **fill(dict(request.query_params)))


def _saying(handle: Callable[..., Any]) -> Callable[..., Any]:
    """Have what goes wrong said on a page: 409 if nothing was done for a good reason, else 503."""

    @wraps(handle)
    def said(*args: Any) -> Any:
        try:
            return handle(*args)
        except HTTPException:
            raise
        except (InvalidRequestError, ImproperlyConfigured) as exc:
            raise HTTPException(409, str(exc)) from exc
        except Exception as exc:
            if not isinstance(exc, OperateError):  # which says all that there is to say
                logger.exception("A page cannot be shown, or a form not be done")
            raise HTTPException(503, str(exc) or type(exc).__name__) from exc

    return said
