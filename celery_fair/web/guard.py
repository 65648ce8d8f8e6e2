"""Headers of every answer, and who gets in.

The policy lets a page load scripts, styles, pictures and live figures from this server alone, run
nothing that stands in the page itself, and be shown in no other page.

The request's Host must be a name that the server is known by: otherwise another site could have its
own name lead here, and read what is shown to whoever is on this machine (DNS rebinding).
"""

from collections.abc import Collection
from html import escape

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from celery_fair.web.visitors import RefusedError, Visitors

__all__ = ["HEADERS", "Guard"]

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src"
        " 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """An ASGI application around another one.

    Arguments:
        visitors: who gets in.
        hosts: the names that the server is known by, in lower case; none for any.
    """

    def __init__(self, app: ASGIApp, visitors: Visitors, hosts: Collection[str]) -> None:
        self._app = app
        self._visitors = visitors
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = await self._admit(scope)
        await (self._app if refusal is None else refusal)(scope, receive, guarded)

    async def _admit(self, scope: Scope) -> Response | None:
        """Say who it is, or return the answer to somebody who does not get in."""
        connection = HTTPConnection(scope)
        host = _name(connection.headers.get("host", ""))
        if self._hosts and host not in self._hosts:
            return _told(421, f"This server is not known as {host!r}: start it with --host-name.")
        try:
            visitor = await run_in_threadpool(self._visitors.of, connection)
        except RefusedError as exc:
            response = _told(401 if exc.asks else 403, str(exc))
            if exc.asks:
                response.headers["www-authenticate"] = 'Basic realm="celery-fair", charset="UTF-8"'
            return response
        scope.setdefault("state", {})["visitor"] = visitor
        return None


def _name(host: str) -> str:
    """The host without its port."""
    name = host.lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0]


def _told(status: int, text: str) -> Response:
    return HTMLResponse(
        f'<!DOCTYPE html><html lang="en"><title>{status}</title><p>{escape(text)}</p></html>',
        status,
    )
