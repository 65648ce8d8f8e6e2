"""The store of an app's groups, opened, or an error that says what to do."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.cli.connecting import app_of
from celery_fair.groups import GroupStore, StoreUnreachableError, store_at
from celery_fair.settings import Settings

__all__ = ["by_number", "settings_of", "store_of"]


def settings_of(ctx: click.Context) -> Settings:
    """Return the settings of the app that a command is about.

    Raises:
        click.ClickException: there is no app, its settings are wrong, or it has no groups.
    """
    app = app_of(ctx)
    try:
        settings = Settings.of(app)
    except ImproperlyConfigured as exc:
        raise click.ClickException(str(exc)) from exc
    if settings.group_store is None or not settings.partitioned:
        raise click.ClickException(
            "the app has no groups: set fair_partitions and fair_group_store"
        )
    return settings


@contextmanager
def store_of(settings: Settings, failure: str) -> Iterator[GroupStore]:
    """Open the store; whatever it cannot do in here is told after the words in `failure`."""
    assert settings.group_store is not None
    try:
        with closing(store_at(settings.group_store)) as store:
            yield store
    except (StoreUnreachableError, ImproperlyConfigured, ValueError) as exc:
        raise click.ClickException(
            f"{failure}: {exc}; start the store, or correct its URL"
        ) from exc


def by_number(partition: str) -> tuple[str, int, str]:
    """Return what puts ``customers.10`` behind ``customers.9``."""
    queue, _, number = partition.rpartition(".")
    return queue, len(number), number
