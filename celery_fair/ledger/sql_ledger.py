"""The ledger in a table of a database."""

import math
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from time import monotonic, time
from typing import Any, TypeVar, cast

from sqlalchemy import (
    Column,
    Double,
    MetaData,
    Table,
    delete,
    extract,
    func,
    insert,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.exc import DatabaseError, IntegrityError

from celery_fair.ledger import Claim, Ledger, LedgerUnreachableError
from celery_fair.sql_client import NOW, TABLE_OPTIONS, ExactText, asked, engine_at

T = TypeVar("T")

_EPOCH = ""
"""The key of the row that holds the epoch; emptying the table deletes it too.

Its owner is what the epoch holds for: an expiry, and what is known of the server; see `_SERVER`.
"""

_CLEAN_EVERY, _CLEAN_ON = 3600.0, 0.1
_CLEANED = 1000
"""Claims that are forgotten at once; if there are more, the next ones soon after."""

_CLAIMS = Table(
    "celery_fair_claims",
    MetaData(),
    Column("key", ExactText(255), primary_key=True),
    Column("owner", ExactText(255), nullable=False),
    Column("at", Double, nullable=False),
    Column("expires", Double, nullable=False, index=True),
    **TABLE_OPTIONS,
)
_KEY, _OWNER, _AT, _EXPIRES = cast(Any, _CLAIMS.c)


def _file(connection: Any) -> str:
    path = connection.execute(text("PRAGMA database_list")).first()[2]
    try:
        found = Path(path).stat()
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def _postgresql(connection: Any) -> str:
    started = extract("epoch", func.pg_postmaster_start_time())
    file = func.pg_relation_filenode(_CLAIMS.name)
    return ":".join(map(str, connection.execute(select(started, file)).one()))


_STARTED = text(files("celery_fair.ledger").joinpath("mariadb_started.sql").read_text())

_SERVER: dict[str, Callable[[Any], str]] = {
    "sqlite": _file,
    "postgresql": _postgresql,
    "mariadb": lambda connection: ":".join(map(str, connection.execute(_STARTED).one())),
}
"""What differs when a database may have lost its last claims without knowing of it.

That is one that was restarted, be it from a snapshot or in place of another, and on PostgreSQL a
table that was made anew. Of a file it is only which one it is.
"""


class SqlLedger(Ledger):
    """A row for each claim. The table ``celery_fair_claims`` is made when it is missing.

    Each claim is made in one statement with a look at the epoch's row: none is made in an epoch
    that holds for another expiry, for such a one is not the one we know. Its time is the
    database's at that moment: what was read of that clock before may be of one that was wrong.
    """

    def __init__(self, url: str, expiry: float) -> None:
        super().__init__(url, expiry)
        self._engine = engine_at(url, "fair_ledger")
        self._server = _SERVER[self._engine.dialect.name]
        self._epoch: float | None = None
        self._ahead = 0.0  # the database's clock, of the monotonic one
        self._cleans_at = -math.inf

    def claim(self, key: str, owner: str, doubt: bool, late: str = "") -> Claim:
        def claim(connection: Any) -> Claim:
            try:
                return self._claim(connection, key, owner, doubt, late)
            except DatabaseError:
                self._epoch = None  # perhaps it was restarted, or the table is gone
                raise

        return self._asked(claim)

    def _claim(self, connection: Any, key: str, owner: str, doubt: bool, late: str) -> Claim:
        if self._epoch is None or doubt:
            self._ahead = self._clock(connection) - monotonic()
        now, at = self._ahead + monotonic(), self._at
        row = {
            "key": literal(key, _KEY.type),
            "owner": literal(owner, _OWNER.type),
            "at": at,
            "expires": at + self.expiry,
        }
        if now > self._cleans_at:
            self._cleans_at = now + self._clean(connection, at)
        if doubt:
            self._epoch = None
        while True:
            if self._epoch is None:
                self._epoch = self._read_epoch(connection, at)
            # A row for the claim if the epoch is still the one we know: in one statement.
            claimed = insert(_CLAIMS).from_select(
                list(_CLAIMS.c.keys()),
                select(*(row[name] for name in _CLAIMS.c.keys())).where(  # noqa: SIM118
                    _KEY == _EPOCH, self._epoch == _AT
                ),
            )
            try:
                if connection.execute(claimed).rowcount:
                    return Claim(None, self._epoch, max(now, self._epoch))
            except IntegrityError:
                had = self._owner(connection, row, late)
                return Claim(had, self._epoch, max(now, self._epoch))
            self._epoch = None

    @property
    def _at(self) -> Any:
        """The database's clock, in a statement; a file's is this machine's."""
        name = self._engine.dialect.name
        return literal(time(), Double()) if name == "sqlite" else NOW[name]

    def _clean(self, connection: Any, at: Any) -> float:
        """Forget some of what has expired, and that it was known; return when to go on, in seconds.

        The clock may be ahead, and be put right before anybody asks for what was forgotten. All at
        once may be so much that a claim would wait for it in vain.
        """
        known_since = at - self.expiry
        later = update(_CLAIMS).where(_KEY == _EPOCH, known_since > _AT)
        connection.execute(later.values(at=known_since))
        expired = select(_KEY).where(at > _EXPIRES).limit(_CLEANED)
        keys = connection.execute(expired).scalars().all()
        connection.execute(delete(_CLAIMS).where(_KEY.in_(keys), at > _EXPIRES))
        return _CLEAN_EVERY if len(keys) < _CLEANED else _CLEAN_ON

    def _clock(self, connection: Any) -> float:
        """Read the database's clock. Another worker's may be wrong."""
        return float(connection.execute(select(self._at)).scalar_one())

    def _owner(self, connection: Any, row: dict[str, Any], late: str) -> str | None:
        """Return whose a claim is; an expired one becomes ours, and so does one that was late."""
        free = (row["at"] > _EXPIRES) | (late == _OWNER)
        if connection.execute(update(_CLAIMS).where(row["key"] == _KEY, free).values(row)).rowcount:
            return None
        owner = connection.execute(select(_OWNER).where(row["key"] == _KEY)).scalar()
        return "" if owner is None else str(owner)  # given up this moment: somebody's, still

    def _read_epoch(self, connection: Any, at: Any) -> float:
        """Return the epoch, which is a new one if the present one holds for something else."""
        present = f"{self.expiry!r} {self._server(connection)}"
        values = {"owner": present, "at": at}
        while True:
            known = connection.execute(select(_AT, _OWNER).where(_KEY == _EPOCH)).first()
            if known is not None and known.owner == present:
                return float(known.at)
            with suppress(IntegrityError):  # somebody was faster
                if known is None:
                    first = values | {"key": _EPOCH, "expires": float("9e15")}
                    connection.execute(insert(_CLAIMS).values(first))
                else:
                    same = update(_CLAIMS).where(_KEY == _EPOCH, known.owner == _OWNER)
                    connection.execute(same.values(values))

    def forget(self, key: str) -> None:
        self._asked(lambda connection: connection.execute(delete(_CLAIMS).where(key == _KEY)))

    def renew(self) -> None:
        self.forget(_EPOCH)

    def close(self) -> None:
        self._engine.dispose()

    def _asked(self, ask: Callable[[Any], T]) -> T:
        return asked(self._engine, _CLAIMS, ask, LedgerUnreachableError)
