"""Who looks, and whether they may change something."""

import hmac
import logging
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from threading import Lock
from typing import NamedTuple, Protocol

from starlette.requests import HTTPConnection

from celery_fair.web.passwords import Passwords

__all__ = [
    "Changers",
    "Local",
    "ProxyHeader",
    "RefusedError",
    "Visitor",
    "Visitors",
    "WithPassword",
]

logger = logging.getLogger(__name__)


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
