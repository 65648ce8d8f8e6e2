"""A connection to an app's broker, or why there is none: said in a way that helps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kombu import Connection

from celery_fair.brokers.broker import NOT_MADE, missing_client, not_made, shown
from celery_fair.operate.errors import OperateError
from celery_fair.settings.values import ENCODED

_WHERE = "the app's broker_url (or in celery -b)"


@contextmanager
def connected(app: Any) -> Iterator[Connection]:
    """Connect to an app's broker for as long as the context lasts.

    Raises:
        OperateError: there is no connection, or it is lost.
    """
    with connection_to(app.connection_for_write) as connection:
        trouble = trouble_with(connection)
        if trouble is not None:
            raise OperateError(trouble)
        try:
            yield connection
        except connection.connection_errors as exc:
            raise OperateError(
                f"the broker {shown(connection)} ended the connection:"
                f" {str(exc) or type(exc).__name__}"
            ) from exc


def connection_to(opened: Callable[[], Connection], where: str = _WHERE) -> Connection:
    """Return an app's connection, which is not open yet.

    kombu imports the broker's client, and reads the URL, when one is made.

    Arguments:
        where: names what its URL was taken from.

    Raises:
        OperateError: it cannot be made, and why; without a password.
    """
    try:
        return opened()
    except NOT_MADE as exc:
        raise OperateError(not_made(where, exc)) from None


def trouble_with(connection: Connection, where: str = _WHERE) -> str | None:
    """Connect; return None, or what went wrong and what to do.

    Arguments:
        where: names what the connection's URL was taken from.
    """
    broker = shown(connection)
    try:
        connection.connect()
        connection.default_channel  # noqa: B018 - Redis connects for its first channel
    except ImportError as exc:
        return missing_client(f"{where} {broker}", exc)
    except Exception as exc:  # noqa: BLE001 - each transport has errors of its own
        if broker.endswith("…"):  # which may have a part of a password in them
            return f"no connection to the broker {broker}; correct {where}: {ENCODED}"
        return (
            f"no connection to the broker {broker}: {str(exc) or type(exc).__name__}; start it, or"
            f" correct host, port, user, password and virtual host (or database) in {where}"
        )
    return None
