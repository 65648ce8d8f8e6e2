"""A session with ZooKeeper, for callers that cannot wait long."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import Any
from urllib.parse import unquote

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.hosts import collect_hosts
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL
from kombu.utils.compat import detect_environment

from celery_fair.groups import StoreUnreachableError

TIMEOUT = 2.0
"""Seconds for an answer, or for a connection to one server."""

_log = logging.getLogger(f"{__name__}.client")
_log.setLevel(logging.ERROR)  # it warns of every attempt; callers are told by exceptions


class Session:
    """Connects when it is first used: by then a worker has forked its pool.

    The client has threads of its own, which reconnect, and begin another session if this one has
    expired. Nothing is bound to a session. A server that has forgotten what the client has seen
    refuses it: anybody who empties ZooKeeper must restart the workers.

    Arguments:
        address: as in a URL, ``user:password@host:port,host:port``; user and port may be left out.

    Raises:
        ValueError: it is no address.
    """

    def __init__(self, address: str) -> None:
        login, _, self.hosts = address.rpartition("@")
        self._patience = TIMEOUT * len(collect_hosts(self.hosts)[0])
        if login and ":" not in login:
            raise ValueError("a user needs a password: user:password@host")
        self._options: dict[str, Any] = {}
        if login:
            self._options["auth_data"] = [("digest", unquote(login))]
            self._options["default_acl"] = CREATOR_ALL_ACL
        self._lock = Lock()
        self._client: Any = None
        self._connected: Any = None

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Yield the connected client, on which ``…_async`` is asked and ``get(timeout=TIMEOUT)``.

        Raises:
            StoreUnreachableError: it cannot connect, or raised in the block.
        """
        client = self._connect()
        try:
            yield client
        except (KazooException, client.handler.timeout_exception) as exc:
            raise StoreUnreachableError(f"ZooKeeper at {self.hosts}: {exc!r}") from exc

    def _connect(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._made()
                self._connected = self._client.start_async()
            client, connected = self._client, self._connected
        if connected.wait(self._patience):
            return client
        if client.client_state in {KeeperState.CLOSED, KeeperState.AUTH_FAILED}:
            self.close()  # its threads have ended; the next question makes others
        raise StoreUnreachableError(
            f"no connection to ZooKeeper at {self.hosts} within {self._patience:g} seconds"
        )

    def _made(self) -> Any:
        handler = _handler()
        retry = {"max_tries": -1, "max_delay": 1.0, "sleep_func": handler.sleep_func}
        return KazooClient(
            self.hosts,
            timeout=TIMEOUT,
            handler=handler,
            connection_retry=retry,
            logger=_log,
            **self._options,
        )

    def close(self) -> None:
        """End the threads; those of a server that does not answer are left to themselves."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            ending = Thread(target=_end, args=(client,), name="end of ZooKeeper", daemon=True)
            ending.start()
            ending.join(TIMEOUT)


def _handler() -> Any:
    if detect_environment() != "eventlet":
        return SequentialThreadingHandler()
    from kazoo.handlers.eventlet import SequentialEventletHandler

    return SequentialEventletHandler()  # the other's waits for a socket end early there


def _end(client: Any) -> None:
    with suppress(KazooException):
        client.stop()
        client.close()
