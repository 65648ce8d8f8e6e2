"""The dead letters of the app that a command was given."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.cli.connecting import trouble_with
from celery_fair.letters.letter_queue import LetterQueue
from celery_fair.letters.opened import opened

__all__ = ["dead_letters_of"]


@contextmanager
def dead_letters_of(ctx: click.Context) -> Iterator[LetterQueue]:
    """Connect to the app's broker for as long as the context lasts.

    Raises:
        click.ClickException: without an app, a connection, or settings that are right; or if the
            connection is lost.
    """
    if ctx.obj is None:  # not through Celery
        raise click.UsageError(
            f"dead-letters {ctx.info_name} looks at the broker of an app:"
            f" celery -A app fair dead-letters {ctx.info_name}"
        )
    with ctx.obj.app.connection_for_write() as connection:
        trouble = trouble_with(connection, "the app's broker_url (or in celery -b)")
        if trouble is not None:
            raise click.ClickException(trouble)
        queue = _opened(ctx.obj.app, connection)
        try:
            yield queue
        except Exception as exc:  # each transport has its own for a lost connection
            if isinstance(exc, click.ClickException) or not queue.is_lost(exc):
                raise
            raise click.ClickException(
                f"the broker {connection.as_uri()} ended the connection while the dead letters were"
                f" looked at: {str(exc) or type(exc).__name__}"
            ) from exc


def _opened(app: Any, connection: Any) -> LetterQueue:
    try:
        return opened(app, connection)
    except ImproperlyConfigured as exc:
        raise click.ClickException(str(exc)) from exc
