"""Groups in a table of a database."""

from contextlib import suppress
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    Column,
    MetaData,
    Table,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError, IntegrityError, SQLAlchemyError

from celery_fair.groups import GroupStore, Snapshot, StoreUnreachableError
from celery_fair.sql_client import NOW, TABLE_OPTIONS, ExactText, LongText, engine_at

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
        self._created = False

    def create(self) -> dict[str, bool]:
        try:
            missing = not inspect(self._engine).has_table(_GROUPS.name)
            with suppress(DatabaseError):  # somebody else was faster
                _GROUPS.metadata.create_all(self._engine)
            with self._engine.connect() as connection:
                connection.execute(select(_VERSION).limit(1))
        except SQLAlchemyError as exc:
            raise StoreUnreachableError(str(exc)) from exc
        self._created = True
        return {f"table {_GROUPS.name}": missing}

    def read(self, group: str) -> Snapshot:
        self._make_sure()
        found = select(_VERSION, _DOCUMENT).where(group == _NAME)
        try:
            with self._engine.connect() as connection:
                row = connection.execute(found).one_or_none()
                now = float(connection.execute(select(self._now)).scalar_one())
        except SQLAlchemyError as exc:
            raise self._unreachable(exc) from exc
        version, document = (0, None) if row is None else row
        return Snapshot(version, document, now)

    def write(self, group: str, version: int, text: str) -> bool:
        self._make_sure()
        values = {"name": group, "version": version + 1, "document": text}
        same = update(_GROUPS).where(group == _NAME, version == _VERSION).values(values)
        try:
            with self._engine.connect() as connection:
                if version:
                    return bool(connection.execute(same).rowcount)
                connection.execute(insert(_GROUPS).values(values))
                return True
        except IntegrityError:  # somebody was faster
            return False
        except SQLAlchemyError as exc:
            raise self._unreachable(exc) from exc

    def close(self) -> None:
        self._engine.dispose()

    def _make_sure(self) -> None:
        if not self._created:
            self.create()

    def _unreachable(self, exc: SQLAlchemyError) -> StoreUnreachableError:
        self._created = False  # perhaps the table is gone
        return StoreUnreachableError(str(exc))
