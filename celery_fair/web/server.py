"""The program that serves the pages."""

import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from celery_fair.brokers.depths import Depths
from celery_fair.operate.errors import InvalidRequestError, OperateError
from celery_fair.operate.workers import Crowd, Workers
from celery_fair.settings import Settings
from celery_fair.web.actions import ActionLog
from celery_fair.web.asgi import application
from celery_fair.web.collector import Collector
from celery_fair.web.guard import Visitors
from celery_fair.web.orders import Orders
from celery_fair.web.site import Site

_GOODBYE = 2
"""Seconds that the end waits for answers that are being sent."""

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Options(NamedTuple):
    """Where to listen, whom to let in, and what to show, as the options of the command say it."""

    host: str
    port: int
    allow_changes: bool
    may_change: Sequence[str]
    proxy_header: str | None
    proxy: Sequence[str]
    host_name: Sequence[str]
    root_path: str
    action_log: Path | None
    timeout: float


@contextmanager
def serving(app: Any, options: Options) -> Iterator[tuple[str, Callable[[], None]]]:
    """Listen: give host and port, and what serves until Ctrl-C or SIGTERM.

    Raises:
        InvalidRequestError: the options contradict each other.
        OperateError: it cannot listen there, or a file cannot be read or written.
    """
    _check(options)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("celery_fair.web").setLevel(logging.INFO)
    with _blaming(f"--action-log {options.action_log}"):
        log = ActionLog(options.action_log)
    with _blaming("--proxy"):
        may_change = options.may_change
        allow = options.allow_changes or bool(may_change)
        visitors = Visitors(allow, may_change, options.proxy_header, options.proxy)
    depths = Depths(app.connection_for_read, Settings.of(app).keys)
    crowd = Crowd(Workers(app, (), options.timeout))
    with (
        _listening(options.host, options.port) as listening,
        closing(Orders(app, log)) as orders,
        closing(Collector(crowd.status, depths)) as collector,
    ):
        site = Site(app, collector, log, orders, options.timeout)
        config = uvicorn.Config(
            application(site, visitors, _hosts(options, listening)),
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            root_path=options.root_path,
            timeout_graceful_shutdown=_GOODBYE,
            lifespan="off",
        )
        server = uvicorn.Server(config)
        site.warm_up()
        collector.start()
        host, port = listening.getsockname()[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        yield address, partial(server.run, [listening])


def _check(options: Options) -> None:
    """Refuse what would let in somebody unasked, or would not do what it says.

    Raises:
        InvalidRequestError: it does.
    """
    if not is_loopback(options.host) and options.proxy_header is None:
        raise InvalidRequestError(
            f"at {options.host} others than you can reach it: say who may, by --proxy-header HEADER"
        )
    if options.may_change and options.proxy_header is None:
        raise InvalidRequestError("--may-change goes by names: it needs --proxy-header HEADER")
    if options.root_path and not options.root_path.startswith("/"):
        raise InvalidRequestError(f"--root-path is a path such as /fair, not {options.root_path!r}")


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to it."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(host: str, port: int) -> socket.socket:
    with _blaming(f"cannot listen at {host}, port {port}"):
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return socket.create_server(found[0][4][:2], family=found[0][0])


@contextmanager
def _blaming(option: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as exc:
        raise OperateError(f"{option}: {exc}") from exc


def _hosts(options: Options, listening: socket.socket) -> set[str]:
    """Return the names that it is known by; none, and so any, if it is told none elsewhere.

    Where a proxy lets visitors in, no name of another site's that leads here gets past that. Where
    nothing does, only names of this machine are known.
    """
    named = {name.lower() for name in options.host_name}
    if is_loopback(options.host):
        return named | set(_LOOPBACK)
    host = str(listening.getsockname()[0])
    own = f"[{host}]" if ":" in host else host
    return named | {own, *_LOOPBACK} if named else set()
