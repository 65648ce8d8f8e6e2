"""The dead letters of the app that a command was given."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import letters_of, shown
from celery_fair.cli.options import app_of
from celery_fair.dead_letters.letter_queue import LetterQueue
from celery_fair.operate.broker import connection_to, trouble_with
from celery_fair.operate.errors import OperateError

__all__ = ["dead_letters_of"]


@contextmanager
def dead_letters_of(ctx: click.Context) -> Iterator[LetterQueue]:
    """Connect to the app's broker for as long as the context lasts.

    Raises:
        OperateError: without an app, a connection, or settings that are right; or if the
            connection is lost.
    """
    app = app_of(ctx)
    with connection_to(app.connection_for_write) as connection:
        trouble = trouble_with(connection)
        if trouble is not None:
            raise OperateError(trouble)
        try:
            queue = letters_of(app, connection)
        except ImproperlyConfigured as exc:
            raise OperateError(str(exc)) from exc
        try:
            yield queue
        except Exception as exc:  # each transport has its own for a lost connection
            if isinstance(exc, OperateError) or not queue.is_lost(exc):
                raise
            raise OperateError(
                f"the broker {shown(connection)} ended the connection while the dead letters were"
                f" looked at: {str(exc) or type(exc).__name__}"
            ) from exc
