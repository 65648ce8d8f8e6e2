"""``--keep``: what is set live is to hold for workers that start later, too."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from celery_fair.brokers.kept import Keeping, keeping
from celery_fair.cli.connecting import connection_to, trouble_with
from celery_fair.settings import Settings

__all__ = ["KEPT", "UNTIL_THE_END", "forgotten", "keep_option", "kept_by", "say_how_long"]

T = TypeVar("T")

UNTIL_THE_END = (
    "It lasts until these workers end, and workers that start later do not know of it. --keep, with"
    " a Redis broker or a fair_key_store, keeps it for those, too."
)

KEPT = "It is kept, and holds for workers that start later, too."

keep_option = click.option(
    "--keep",
    is_flag=True,
    help="Keep it in Redis, for workers that start later, too.",
)


def kept_by(app: Any, keep: Callable[[Keeping], T]) -> T:
    """Have something kept; return what `keep` does.

    Raises:
        click.ClickException: there is no Redis to keep it, or it does not answer.
    """
    with _opened(app) as found:
        if found is None:
            raise click.ClickException(
                "--keep needs a Redis: as broker, or fair_key_store = 'redis://…' (or"
                " fair_leash_url), in the settings of workers, too. Nothing was changed"
            )
        return keep(found)


def say_how_long(as_json: bool, kept: bool, done: bool) -> None:
    """Say on standard error how long a change lasts, if one was made, to whoever reads text."""
    if done and not as_json:
        click.echo(KEPT if kept else UNTIL_THE_END, err=True)


def forgotten(app: Any, forget: Callable[[Keeping], bool]) -> bool:
    """Have something kept no more, where there is a Redis that might; return whether it was."""
    with _opened(app) as found:
        return found is not None and forget(found)


@contextmanager
def _opened(app: Any) -> Iterator[Keeping | None]:
    with connection_to(app.connection_for_write) as connection:
        trouble = trouble_with(connection)
        try:
            with keeping(Settings.of(app), connection) as found:
                yield found
        except click.ClickException:
            raise
        except Exception as exc:
            said = trouble or str(exc) or type(exc).__name__
            raise click.ClickException(f"Redis cannot be asked what is kept: {said}") from exc
