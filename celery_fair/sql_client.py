"""SQL databases: an engine for callers that cannot wait long, and text that is compared exactly.

Those that are taken are those that the tests run on: each has a clock, a largest text and an idea
of equal keys of its own.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from celery.exceptions import ImproperlyConfigured
from sqlalchemy import (
    Double,
    Engine,
    String,
    Table,
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
from sqlalchemy.exc import ArgumentError, DatabaseError, SQLAlchemyError

from celery_fair.settings.values import ENCODED, unread

T = TypeVar("T")

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
    "postgresql+psycopg": {"connect_timeout": _TIMEOUT},
    "mariadb+pymysql": {
        **dict.fromkeys(("connect_timeout", "read_timeout", "write_timeout"), _TIMEOUT),
        # Or an INSERT with a SELECT locks what it reads, and two of them each other.
        "init_command": "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    },
}
"""By database and driver, what that is given; those that are not named are not tried."""

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
            connect_args=_ARGUMENTS[made.drivername],
        )
        if engine.driver == "pymysql":  # it would refuse an option no sooner than when it connects
            _, options = engine.dialect.create_connect_args(made)
            engine.dialect.loaded_dbapi.connect(**options, defer_connect=True)
    except (ArgumentError, TypeError, ValueError) as exc:  # such as a port that is no number
        raise ImproperlyConfigured(f"{setting}: {unread(url, exc)}") from None
    if engine.driver == "psycopg":
        event.listen(engine, "do_connect", _connected)
    return engine


def _connected(_dialect: Any, _record: Any, args: Any, options: dict[str, Any]) -> Any:
    from celery_fair.psycopg_deadline import connecting

    return connecting(_TIMEOUT).connect(*args, **options)


def asked(engine: Engine, table: Table, ask: Callable[[Any], T], unreachable: type[Exception]) -> T:
    """Return what `ask` returns of a connection; the table is made if it may be missing.

    Raises:
        unreachable: the database does not answer, or refuses it. Who was waited for in vain is not
            asked again, which would take as long.
    """
    try:
        with engine.connect() as connection:
            return ask(connection)
    except SQLAlchemyError as exc:
        if not isinstance(exc, DatabaseError) or any(said in str(exc) for said in _WAITED):
            raise unreachable(_said(exc)) from exc
    try:
        with suppress(DatabaseError):  # somebody else was faster
            table.metadata.create_all(engine)
        with engine.connect() as connection:
            return ask(connection)
    except SQLAlchemyError as exc:
        raise unreachable(_said(exc)) from exc


def _said(exc: SQLAlchemyError) -> str:
    return str(exc).partition("\n(Background")[0]


def _refuse_untried(url: URL, setting: str) -> None:
    shown = f"{setting} = '{url.drivername}://…'"
    if url.host and "@" in f"{url.host}/{url.database}":  # which may be a part of the password
        raise ImproperlyConfigured(f"{shown}: {ENCODED}")
    if url.drivername not in _ARGUMENTS:
        raise ImproperlyConfigured(
            f"{shown}: this is neither Redis nor a database, with its driver, that celery-fair is"
            " tried with; use redis://…, sqlite:///…, postgresql+psycopg://… or, if it is MariaDB,"
            " mariadb+pymysql://…"
        )
    if url.drivername == "sqlite" and _in_memory(url):
        raise ImproperlyConfigured(
            f"{shown}: a database in memory is another one in each process; name a file, as in"
            " sqlite:////var/lib/shop/shop.db"
        )


def _in_memory(url: URL) -> bool:
    file = (url.database or "").removeprefix("file:")
    return file in {"", ":memory:"} or url.query.get("mode") == "memory"
