"""Ledgers of a scene's own, which can be made to forget, be silent, or be wrong about time."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from typing import Any

from sqlalchemy import create_engine, text

from tests.brokers import PostgreSQL, RedisServer

__all__ = ["LEDGERS", "Ledger", "OnPostgreSQL", "OnRedis"]

HOUR = 3600

_STEPPING = """
CREATE SCHEMA shown;
CREATE TABLE shown.step AS SELECT 0::double precision AS seconds;
CREATE FUNCTION shown.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
'SELECT pg_catalog.clock_timestamp() + (SELECT seconds FROM shown.step) * interval ''1 second'''
"""
"""A clock that hides the server's own from whoever looks there first; see `OnPostgreSQL`."""


class OnRedis:
    def __init__(self) -> None:
        self.server = RedisServer()
        self.server.start()
        self.server.wait_ready()
        self.url = self.server.url()

    def trust(self) -> None:
        """Nothing is under way, so it may as well be an hour old: what it knows counts."""
        self._client.hset("celery-fair:ledger", "at", float(self._client.time()[0] - HOUR))

    def claimed(self, ids: Collection[str]) -> set[str]:
        """Whose claims are remembered."""
        return {id_ for id_ in ids if self._client.exists(f"celery-fair:claim:{id_}")}

    def flush(self) -> None:
        self.server.flush("0")

    def pause(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    @property
    def _client(self) -> Any:
        return self.server.client

    def end(self) -> None:
        self.server.end()


class OnPostgreSQL:
    """Its clock can be stepped.

    A function of the same name hides it, by the order in which names are looked up.
    """

    def __init__(self) -> None:
        self.server = PostgreSQL()
        self.server.start()
        self.server.wait_ready()
        self.url = self.server.database() + "?options=-csearch_path%3Dpublic,shown,pg_catalog"
        self._engine = create_engine(self.url, isolation_level="AUTOCOMMIT")
        self._do(_STEPPING)

    def trust(self) -> None:
        """Nothing is under way, so it may as well be right, and an hour old."""
        self.step(0)
        self._do(
            "UPDATE celery_fair_claims SET at = extract(epoch FROM now()) - :age WHERE key = ''",
            age=HOUR,
        )

    def claimed(self, ids: Collection[str]) -> set[str]:
        """Whose claims are remembered."""
        found = self._do(
            "SELECT key FROM celery_fair_claims"
            " WHERE key = ANY(:ids) AND expires > extract(epoch FROM clock_timestamp())",
            ids=list(ids),
        )
        return {row.key for row in found}

    def step(self, seconds: float) -> None:
        """Have the clock be so far ahead of the right time."""
        self._do("UPDATE shown.step SET seconds = :seconds", seconds=seconds)

    def _do(self, statement: str, **values: Any) -> Any:
        with self._engine.connect() as connection:
            done = connection.execute(text(statement), values)
            return done.all() if done.returns_rows else None

    def end(self) -> None:
        self._engine.dispose()
        self.server.end()


Ledger = OnRedis | OnPostgreSQL

LEDGERS: dict[str, type[Ledger]] = {"ledger": OnRedis, "ledger on PostgreSQL": OnPostgreSQL}
