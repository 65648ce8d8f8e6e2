"""A database that refuses who has an older token than somebody before."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

_SCHEMA = """
CREATE TABLE IF NOT EXISTS fences (partition TEXT PRIMARY KEY, token INTEGER);
CREATE TABLE IF NOT EXISTS effects (
    number INTEGER PRIMARY KEY, partition TEXT, token INTEGER, kind TEXT, message TEXT
);
"""
_PATIENCE = 30


class Effect(NamedTuple):
    """What was let in: that a message's work has begun, or has ended."""

    partition: str
    token: int
    kind: str
    message: str


class Fenced:
    """All that the workers of a test have done, in the order of their transactions."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self) -> None:
        """Before anybody uses it."""
        with closing(sqlite3.connect(self._path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)

    def take(self, effect: Effect) -> bool:
        """Keep an effect, unless its token is too old; return whether it was kept."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO fences VALUES (:partition, 0)", effect._asdict()
            )
            is_ours = connection.execute(
                "UPDATE fences SET token = :token WHERE partition = :partition AND token <= :token",
                effect._asdict(),
            ).rowcount
            if is_ours:
                connection.execute(
                    "INSERT INTO effects (partition, token, kind, message)"
                    " VALUES (:partition, :token, :kind, :message)",
                    effect._asdict(),
                )
            return bool(is_ours)

    def is_free(self) -> bool:
        """Whether nobody is in the midst of a transaction."""
        try:
            with self._transaction(patience=0):
                return True
        except sqlite3.OperationalError:
            return False

    def effects(self) -> list[Effect]:
        with self._transaction() as connection:
            rows = connection.execute(
                "SELECT partition, token, kind, message FROM effects ORDER BY number"
            )
            return [Effect(*row) for row in rows]

    def tokens(self) -> dict[str, int]:
        """By partition, the greatest that was seen."""
        with self._transaction() as connection:
            return dict(connection.execute("SELECT partition, token FROM fences").fetchall())

    @contextmanager
    def _transaction(self, patience: float = _PATIENCE) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=patience)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                yield connection
