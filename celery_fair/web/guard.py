"""Headers of every answer, and who gets in: who looks, and whether they may change something.

The policy lets a page load scripts, styles, pictures and live figures from this server alone, run
nothing that stands in the page itself, and be shown in no other page.

The request's Host must be a name that the server is known by: otherwise another site could have its
own name lead here, and read what is shown to whoever is on this machine (DNS rebinding).
"""

from collections.abc import Collection
from ipaddress import ip_address
from typing import NamedTuple

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class Visitor(NamedTuple):
    """Somebody who may look.

    Attributes:
        name: for the log of actions.
        may_change: whether they may do more than look.
    """

    name: str
    may_change: bool


class Visitors:
    """Whoever can connect, for an address of this machine alone; or whom a proxy names.

    Arguments:
        allow_changes: whether anybody may change something.
        may_change: only these; all who may look if there are none.
        header: the proxy's, which it sets itself; None for no proxy.
        proxies: addresses that it is believed from.
    """

    def __init__(
        self,
        allow_changes: bool,
        may_change: Collection[str] = (),
        header: str | None = None,
        proxies: Collection[str] = (),
    ) -> None:
        self._allow_changes = allow_changes
        self._may_change = may_change
        self._header = header
        self._proxies = {ip_address(each) for each in proxies}

    def of(self, connection: HTTPConnection) -> Visitor:
        """Return who sends a request.

        Raises:
            HTTPException: they may not look; it says why.
        """
        name = "local" if self._header is None else self._named(connection, self._header)
        return Visitor(name, self._allow_changes and name in (self._may_change or {name}))

    def _named(self, connection: HTTPConnection, header: str) -> str:
        address = connection.client.host if connection.client else ""
        if not address or ip_address(address) not in self._proxies:
            text = f"{address or 'This address'} is not that of the proxy (--proxy)."
            raise HTTPException(403, text)
        said = connection.headers.getlist(header)
        if len(said) != 1 or not said[0].strip():
            raise HTTPException(403, f"The proxy's header {header} does not name one visitor.")
        return said[0].strip()


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

        answer = self._app
        try:
            visitor = self._admit(HTTPConnection(scope))
            scope.setdefault("state", {})["visitor"] = visitor
        except HTTPException as exc:
            answer = PlainTextResponse(exc.detail, exc.status_code, exc.headers)
        await answer(scope, receive, guarded)

    def _admit(self, connection: HTTPConnection) -> Visitor:
        host = _name(connection.headers.get("host", ""))
        if self._hosts and host not in self._hosts:
            text = f"This server is not known as {host!r}: start it with --host-name."
            raise HTTPException(421, text)
        return self._visitors.of(connection)


def _name(host: str) -> str:
    """The host without its port."""
    name = host.lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0]
