"""SQL databases: an engine for callers that cannot wait long."""

from celery.exceptions import ImproperlyConfigured
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

__all__ = ["engine_at"]

_TIMEOUT = 2
"""Seconds for a connection, or for a lock; other databases take it from their URL."""
_TIMEOUT_ARGUMENT = {"postgresql": "connect_timeout", "sqlite": "timeout"}


def engine_at(url: str, setting: str) -> Engine:
    """Return an engine whose every statement is a transaction of its own.

    Raises:
        celery.exceptions.ImproperlyConfigured: none can be made for the URL.
        ImportError: the database's driver is not installed.
    """
    try:
        argument = _TIMEOUT_ARGUMENT.get(make_url(url).get_backend_name())
        return create_engine(
            url,
            isolation_level="AUTOCOMMIT",
            execution_options={"preserve_rowcount": True},  # psycopg has forgotten it otherwise
            connect_args={argument: _TIMEOUT} if argument else {},
        )
    except NoSuchModuleError as exc:
        raise ImproperlyConfigured(
            f"{setting} = '{url.partition(':')[0]}://…': this is neither Redis nor a database that"
            f" SQLAlchemy knows ({exc}); use redis://…, sqlite:///… or postgresql+psycopg://…, or"
            f" install the database's dialect"
        ) from exc
    except (ArgumentError, ValueError) as exc:  # such as a port that is no number
        raise ImproperlyConfigured(f"{setting}: {exc}") from exc
