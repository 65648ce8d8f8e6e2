"""Groups in a table of a database."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from sqlalchemy import BigInteger, Column, MetaData, Table, insert, inspect, select, update
from sqlalchemy.exc import IntegrityError

from celery_fair.groups import GroupStore, Snapshot, StoreUnreachableError
from celery_fair.sql_client import NOW, TABLE_OPTIONS, ExactText, LongText, asked, engine_at

T = TypeVar("T")

_GROUPS = Table(
    "celery_fair_groups",
    MetaData(),
    Column("name", ExactText(255), primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("document", LongText, nullable=False),
    **TABLE_OPTIONS,
)
_NAME, _VERSION, _DOCUMENT = cast(Any, _GROUPS.c)


class SqlStore(GroupStore):
    """A row for each group. The table ``celery_fair_groups`` is made when it is missing."""

    def __init__(self, url: str) -> None:
        self._engine = engine_at(url, "fair_group_store")
        self._now: Any = NOW[self._engine.dialect.name]

    def create(self) -> dict[str, bool]:
        missing = self._asked(lambda connection: not inspect(connection).has_table(_GROUPS.name))
        self._asked(lambda connection: connection.execute(select(_VERSION).limit(1)))
        return {f"table {_GROUPS.name}": missing}

    def read(self, group: str) -> Snapshot:
        found = select(_VERSION, _DOCUMENT).where(group == _NAME)

        def ask(connection: Any) -> Snapshot:
            row = connection.execute(found).one_or_none()
            now = float(connection.execute(select(self._now)).scalar_one())
            version, document = (0, None) if row is None else row
            return Snapshot(version, document, now)

        return self._asked(ask)

    def write(self, group: str, version: int, text: str) -> bool:
        values = {"name": group, "version": version + 1, "document": text}
        same = update(_GROUPS).where(group == _NAME, version == _VERSION).values(values)

        def ask(connection: Any) -> bool:
            if version:
                return bool(connection.execute(same).rowcount)
            try:
                connection.execute(insert(_GROUPS).values(values))
            except IntegrityError:  # somebody was faster
                return False
            return True

        return self._asked(ask)

    def close(self) -> None:
        self._engine.dispose()

    def _asked(self, ask: Callable[[Any], T]) -> T:
        return asked(self._engine, _GROUPS, ask, StoreUnreachableError)
