"""SQL databases: an engine for callers that cannot wait long, and text that is compared exactly.

Those that are taken are those that the tests run on: each has a clock, a largest text and an idea
of equal keys of its own.
"""

from typing import Any

from celery.exceptions import ImproperlyConfigured
from sqlalchemy import (
    Double,
    Engine,
    String,
    Text,
    TypeDecorator,
    create_engine,
    event,
    extract,
    func,
    literal_column,
)
from sqlalchemy.dialects.mysql import LONGTEXT, VARBINARY
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from celery_fair.settings.values import unread

NOW: dict[str, Any] = {
    "sqlite": literal_column("(julianday('now') - 2440587.5) * 86400.0", Double()),
    "postgresql": extract("epoch", func.clock_timestamp()),
    "mariadb": literal_column(
        "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6", Double()
    ),
}
"""The database's clock, finer than a second, whatever its time zone."""

_TIMEOUT = 2
"""Seconds for a connection, for a lock, or for an answer."""

_WAITED = ("database is locked", "timed out", "timeout expired")
"""What the drivers say when that has passed; PyMySQL and psycopg, and SQLite itself."""

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "sqlite": {"timeout": _TIMEOUT},
    "postgresql": {"connect_timeout": _TIMEOUT},
    "mariadb": {
        **dict.fromkeys(("connect_timeout", "read_timeout", "write_timeout"), _TIMEOUT),
        # Or an INSERT with a SELECT locks what it reads, and two of them each other.
        "init_command": "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    },
}
"""By database, what its driver is given; those that are not named are not tried."""

_TRIED = "sqlite:///…, postgresql+psycopg://… or mariadb+pymysql://…"

TABLE_OPTIONS: dict[str, Any] = {"mariadb_charset": "utf8mb4", "mariadb_engine": "InnoDB"}

LongText = Text().with_variant(LONGTEXT(), "mariadb")
"""Of any length; MariaDB's plain one ends at 64 kB."""


class ExactText(TypeDecorator[str]):
    """Text of which two are equal only if they are the same.

    MariaDB compares text without regard to case, to accents and to spaces at its end, and bytes as
    they are.
    """

    impl = String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self._length = length

    def load_dialect_impl(self, dialect: Any) -> Any:
        is_bytes = dialect.name == "mariadb"
        return VARBINARY(4 * self._length) if is_bytes else String(self._length)

    def process_bind_param(self, value: str | None, dialect: Any) -> Any:
        is_bytes = dialect.name == "mariadb" and value is not None
        return value.encode() if is_bytes and value is not None else value

    def process_result_value(self, value: Any, dialect: Any) -> str | None:
        return value.decode() if isinstance(value, bytes) else value


def engine_at(url: str, setting: str) -> Engine:
    """Return an engine whose every statement is a transaction of its own.

    Raises:
        celery.exceptions.ImproperlyConfigured: none can be made for the URL, or the database is
            not tried.
        ImportError: the database's driver is not installed.
    """
    try:
        made = make_url(url)
        _refuse_untried(made, setting)
        engine = create_engine(
            made,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,  # or an error shows them: claims are made of tasks' arguments
            execution_options={"preserve_rowcount": True},  # psycopg has forgotten it otherwise
            connect_args=_ARGUMENTS[made.get_backend_name()],
        )
    except NoSuchModuleError as exc:
        raise ImproperlyConfigured(
            f"{setting} = '{url.partition(':')[0]}://…': SQLAlchemy knows no such driver ({exc});"
            f" use redis://…, {_TRIED}"
        ) from exc
    except (ArgumentError, ValueError) as exc:  # such as a port that is no number
        raise ImproperlyConfigured(f"{setting}: {unread(url, exc)}") from None
    if engine.driver == "psycopg":
        event.listen(engine, "do_connect", _connected)
    return engine


def _connected(_dialect: Any, _record: Any, args: Any, options: dict[str, Any]) -> Any:
    from celery_fair.psycopg_deadline import connecting

    return connecting(_TIMEOUT).connect(*args, **options)


def has_waited(exc: Exception) -> bool:
    """Whether a database has been waited for in vain: to ask it again takes as long again."""
    return any(said in str(exc) for said in _WAITED)


def _refuse_untried(url: URL, setting: str) -> None:
    backend, shown = url.get_backend_name(), f"{setting} = '{url.drivername}://…'"
    if backend == "mysql":
        raise ImproperlyConfigured(
            f"{shown}: MySQL is not tried. If it is MariaDB, write mariadb+pymysql://…; or use"
            f" redis://… or {_TRIED}"
        )
    if backend not in _ARGUMENTS:
        raise ImproperlyConfigured(
            f"{shown}: this is neither Redis nor a database that celery-fair is tried with; use"
            f" redis://… or {_TRIED}"
        )
    if backend == "sqlite" and _in_memory(url):
        raise ImproperlyConfigured(
            f"{shown}: a database in memory is another one in each process; name a file, as in"
            " sqlite:////var/lib/shop/shop.db"
        )
    if backend == "mariadb" and url.drivername != "mariadb+pymysql":
        raise ImproperlyConfigured(
            f"{shown}: of MariaDB's drivers one is tried; pip install pymysql, and write"
            " mariadb+pymysql://…"
        )


def _in_memory(url: URL) -> bool:
    file = (url.database or "").removeprefix("file:")
    return file in {"", ":memory:"} or url.query.get("mode") == "memory"
