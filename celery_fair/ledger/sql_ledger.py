"""The ledger in a table of a database."""

from contextlib import suppress
from time import time
from typing import Any, cast

from sqlalchemy import (
    Column,
    Double,
    MetaData,
    String,
    Table,
    delete,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError, IntegrityError, SQLAlchemyError

from celery_fair.ledger import Claim, Ledger, LedgerUnreachableError
from celery_fair.sql_client import engine_at

__all__ = ["SqlLedger"]

_EPOCH = ""
"""The key of the row that carries the epoch; whoever empties the table deletes it too."""

_CLEAN_EVERY = 3600.0

_CLAIMS = Table(
    "celery_fair_claims",
    MetaData(),
    Column("key", String(255), primary_key=True),
    Column("owner", String(255), nullable=False),
    Column("at", Double, nullable=False),
    Column("expires", Double, nullable=False, index=True),
)
_KEY, _OWNER, _AT, _EXPIRES = cast(Any, _CLAIMS.c)


class SqlLedger(Ledger):
    """A row for each claim. The table ``celery_fair_claims`` is made when it is missing."""

    def __init__(self, url: str, expiry: float) -> None:
        super().__init__(url, expiry)
        self._engine = engine_at(url, "fair_ledger")
        self._epoch: float | None = None
        self._cleaned = time()

    def claim(self, key: str, owner: str, doubt: bool) -> Claim:
        try:
            return self._claim(key, owner)
        except DatabaseError:
            self._epoch = None  # perhaps the table is gone
        except SQLAlchemyError as exc:
            raise LedgerUnreachableError(str(exc)) from exc
        try:
            with suppress(DatabaseError):  # somebody else was faster
                _CLAIMS.metadata.create_all(self._engine)
            return self._claim(key, owner)
        except SQLAlchemyError as exc:
            raise LedgerUnreachableError(str(exc)) from exc

    def _claim(self, key: str, owner: str) -> Claim:
        now = time()
        row = {"key": key, "owner": owner, "at": now, "expires": now + self.expiry}
        with self._engine.connect() as connection:
            if now - self._cleaned > _CLEAN_EVERY:
                self._cleaned = now
                connection.execute(delete(_CLAIMS).where(now > _EXPIRES))
            while True:
                if self._epoch is None:
                    self._epoch = self._read_epoch(connection, now)
                # A row for the claim if the epoch is still the one we know: in one statement.
                claimed = insert(_CLAIMS).from_select(
                    list(row),
                    select(*(literal(value) for value in row.values())).where(
                        _KEY == _EPOCH, self._epoch == _AT
                    ),
                )
                try:
                    if connection.execute(claimed).rowcount:
                        return Claim(None, self._epoch, now)
                except IntegrityError:
                    had = self._owner(connection, row)
                    return Claim(had, self._epoch, now)
                self._epoch = None

    def _owner(self, connection: Any, row: dict[str, Any]) -> str | None:
        """Return whose a claim is; an expired one becomes ours."""
        expired = update(_CLAIMS).where(row["key"] == _KEY, row["at"] > _EXPIRES).values(row)
        if connection.execute(expired).rowcount:
            return None
        owner = connection.execute(select(_OWNER).where(row["key"] == _KEY)).scalar()
        return "" if owner is None else str(owner)  # given up this moment: somebody's, still

    @staticmethod
    def _read_epoch(connection: Any, now: float) -> float:
        known = select(_AT).where(_KEY == _EPOCH)
        epoch = connection.execute(known).scalar()
        if epoch is None:
            first = insert(_CLAIMS).values(key=_EPOCH, owner="", at=now, expires=float("9e15"))
            try:
                connection.execute(first)
            except IntegrityError:  # somebody was faster
                now = connection.execute(known).scalar_one()
            return now
        return float(epoch)

    def forget(self, key: str) -> None:
        try:
            with self._engine.connect() as connection:
                connection.execute(delete(_CLAIMS).where(key == _KEY))
        except SQLAlchemyError as exc:
            raise LedgerUnreachableError(str(exc)) from exc

    def renew(self) -> None:
        self.forget(_EPOCH)

    def close(self) -> None:
        self._engine.dispose()
