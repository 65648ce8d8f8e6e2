"""Headers of every answer, and who gets in: who looks, and whether they may change something.

The policy lets a page load scripts, styles, pictures and live figures from this server alone, run
nothing that stands in the page itself, and be shown in no other page.

The request's Host must be a name that the server is known by: otherwise another site could have its
own name lead here, and read what is shown to whoever is on this machine (DNS rebinding).
"""

import hmac
import logging
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Collection, Mapping
from html import escape
from ipaddress import ip_address
from threading import Lock
from typing import NamedTuple, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from celery_fair.web.passwords import Passwords

__all__ = [
    "HEADERS",
    "Changers",
    "Guard",
    "Local",
    "ProxyHeader",
    "RefusedError",
    "Visitor",
    "Visitors",
    "WithPassword",
]

logger = logging.getLogger(__name__)

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


class RefusedError(Exception):
    """Somebody may not look; the message says why.

    Attributes:
        asks: whether their browser is to ask for a name and a password.
    """

    def __init__(self, message: str, asks: bool = False) -> None:
        super().__init__(message)
        self.asks = asks


class Visitors(Protocol):
    """Says who it is; from any thread."""

    def of(self, connection: HTTPConnection) -> Visitor:
        """Return who sends a request.

        Raises:
            RefusedError: they may not look.
        """


class Changers:
    """Who may change something.

    Arguments:
        allowed: whether anybody may.
        names: only these; all who may look if there are none.
    """

    def __init__(self, allowed: bool, names: Collection[str] = ()) -> None:
        self._allowed = allowed
        self._names = frozenset(names)

    def visitor(self, name: str) -> Visitor:
        """Return somebody who may look, by their name."""
        return Visitor(name, self._allowed and (not self._names or name in self._names))


class Local:
    """Whoever can connect: for an address of this machine alone."""

    def __init__(self, changers: Changers) -> None:
        self._changers = changers

    def of(self, connection: HTTPConnection) -> Visitor:
        return self._changers.visitor("local")


class WithPassword:
    """Whoever has a name and a password (HTTP's basic authentication).

    To verify a password takes some tenths of a second, on purpose, and is done one at a time.
    What was right is remembered, as a digest under a key of this process's own.
    """

    def __init__(self, passwords: Passwords, changers: Changers) -> None:
        self._passwords = passwords
        self._changers = changers
        self._lock = Lock()
        self._right: dict[str, bytes] = {}

    def of(self, connection: HTTPConnection) -> Visitor:
        name, password = _credentials(connection.headers)
        digest = self._passwords.digest(name, password)
        if not hmac.compare_digest(self._right.get(name, b""), digest):
            with self._lock:
                if not self._passwords.verify(name, password):
                    logger.warning("A wrong name or password, from %s", _address(connection))
                    raise RefusedError("The name or the password is wrong.", asks=True)
            self._right[name] = digest
        return self._changers.visitor(name)


class ProxyHeader:
    """Whoever a proxy says it is, in a header that it sets itself.

    Arguments:
        header: its name.
        proxies: addresses that it is believed from.
    """

    def __init__(self, header: str, proxies: Collection[str], changers: Changers) -> None:
        self._header = header
        self._proxies = {ip_address(each) for each in proxies}
        self._changers = changers

    def of(self, connection: HTTPConnection) -> Visitor:
        address = _address(connection)
        if not address or ip_address(address) not in self._proxies:
            raise RefusedError(f"{address or 'This address'} is not that of the proxy (--proxy).")
        said = connection.headers.getlist(self._header)
        if len(said) != 1 or not said[0].strip():
            raise RefusedError(f"The proxy's header {self._header} does not name one visitor.")
        return self._changers.visitor(said[0].strip())


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


def _credentials(headers: Mapping[str, str]) -> tuple[str, str]:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    try:
        name, colon, password = b64decode(value, validate=True).decode().partition(":")
    except (NotBase64, ValueError):
        name = colon = password = ""
    if scheme.lower() != "basic" or not colon:
        raise RefusedError("A name and a password are needed.", asks=True)
    return name, password


def _address(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client else ""
