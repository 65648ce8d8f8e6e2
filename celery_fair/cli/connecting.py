"""The app that a command is about, and a broker that does not answer: said in a way that helps."""

from collections.abc import Callable
from typing import Any

import click
from kombu import Connection

from celery_fair.brokers.broker import shown
from celery_fair.brokers.refused import NO_CLIENT, missing_client

__all__ = ["app_of", "connection_to", "trouble_with"]


def app_of(ctx: click.Context) -> Any:
    """Return the app that ``celery -A`` was given; without one, say how."""
    if ctx.obj is not None:
        return ctx.obj.app
    words, group = str(ctx.info_name), ctx.parent
    while group is not None and group.parent is not None:
        words, group = f"{group.info_name} {words}", group.parent
    raise click.UsageError(  # not through Celery
        f"{words} is about an app and its workers: celery -A app fair {words}"
    )


_WHERE = "the app's broker_url (or in celery -b)"


def connection_to(opened: Callable[[], Connection]) -> Connection:
    """Return an app's connection, which is not open yet.

    kombu imports the broker's client, and reads the URL, when one is made.

    Raises:
        click.ClickException: it cannot be made, and why; without a password.
    """
    try:
        return opened()
    except NO_CLIENT as exc:
        raise click.ClickException(missing_client(_WHERE, exc)) from exc
    except (KeyError, ValueError, TypeError):
        raise click.ClickException(
            f"{_WHERE} cannot be read: it begins with amqp://, redis:// or sqs://; special"
            " characters in a user name or password must be percent-encoded (an @ as %40, a / as"
            " %2F), and a port is a number up to 65535"
        ) from None


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
        return (
            f"no connection to the broker {broker}: {str(exc) or type(exc).__name__}; start it, or"
            f" correct host, port, user, password and virtual host (or database) in {where}"
        )
    return None
