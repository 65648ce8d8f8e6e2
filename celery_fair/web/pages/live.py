"""Server-sent events: a page's changing part, again and again.

Those who look at the same thing are sent the same text, which is made once; a part with forms in
it is each visitor's own.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from threading import Lock
from typing import Any

from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from celery_fair.web.site import Site

__all__ = ["Lines", "Live", "Part"]

_PERSONAL = {"order", "actions"}
"""Parts with forms in them, which have their visitor's token."""

Part = Callable[[Mapping[str, str]], dict[str, Any]]

Lines = Callable[[Mapping[str, str], Any], tuple[Any, Any]]
"""Given what an address asks for, and what was drawn, None at first, returns what is drawn now, and
what is sent of it, if anything."""


class Live:
    """Sends parts and lines.

    Arguments:
        parts: those that there are, by the page's name: what fills them in, and their template.
        lines: of pages that have some.
    """

    def __init__(
        self, site: Site, parts: Mapping[str, tuple[Part, str]], lines: Mapping[str, Lines]
    ) -> None:
        self._site = site
        self._parts = parts
        self._lines = lines
        self._made: dict[tuple[str, str, bool], tuple[int, str]] = {}
        self._lock = Lock()

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
            snapshot = await self._site.collector.after(number)
            number = snapshot.number
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
        who = request.state.visitor
        address = f"{name}?{sorted(query.items())}"
        key = (address, who.name if name in _PERSONAL else "", who.may_change)
        with self._lock:
            made = self._made.get(key)
        if made is None or made[0] != number:
            fill, template = self._parts[name]
            html = self._site.html(request, template, **fill(query))
            made = number, json.dumps({"html": html})
            with self._lock:
                self._made = {k: v for k, v in self._made.items() if v[0] >= number - 1}
                self._made[key] = made
        return made[1]
