"""The HTTP server that metrics are fetched from, in a thread of the worker's main process.

It is bound before the pool is made, so that a worker whose port is taken ends at once, and serves
after. A process that the pool forks would hold on to the listening socket: then the port of a
worker that was killed stays taken by what is left of it. So a child first of all closes it.
"""

import errno
import logging
import os
import socket
import sys
from http.server import ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread
from typing import Any
from weakref import WeakSet

from celery.exceptions import ImproperlyConfigured
from prometheus_client import MetricsHandler
from prometheus_client.registry import Collector

from celery_fair.settings import Address

__all__ = ["MetricsServer"]

logger = logging.getLogger(__name__)

_PATIENCE = 10
"""Seconds that a client is given for its request."""


class MetricsServer:
    """Serves a registry at an address.

    Raises:
        celery.exceptions.ImproperlyConfigured: the address cannot be listened at.
    """

    def __init__(self, address: Address, registry: Any) -> None:
        handler = type("Handler", (_Handler,), {"registry": registry})
        try:
            self._server = _server_class(address)(address, handler)
        except OSError as exc:
            raise ImproperlyConfigured(_refusal(address, exc)) from exc
        self._thread: Thread | None = None
        _listening.add(self._server)

    def start(self) -> None:
        """Begin to answer; again does nothing."""
        if self._thread is None:
            self._thread = Thread(
                target=self._server.serve_forever, name="fair-metrics", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Answer no more, and give the port back."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_port = False  # two workers behind one port would be mixed up

    def server_bind(self) -> None:
        """As the base's base: HTTPServer's own asks the name service for its host."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is not worth a traceback on the worker's standard error."""
        logger.debug("No metrics for %s: %r", client_address, sys.exception())


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(MetricsHandler):
    registry: Collector
    timeout = _PATIENCE


_listening: WeakSet[_Server] = WeakSet()


def _close_in_child() -> None:
    for server in _listening:
        server.socket.close()


os.register_at_fork(after_in_child=_close_in_child)


def _server_class(address: Address) -> type[_Server]:
    return _Server6 if ":" in address.host else _Server


def _refusal(address: Address, exc: OSError) -> str:
    if exc.errno == errno.EADDRINUSE:
        return (
            f"fair_metrics: {address} is in use, by another worker with the same setting or by"
            " another program; give each worker of a machine a port of its own"
        )
    return f"fair_metrics: cannot listen at {address}: {exc.strerror or exc}"
