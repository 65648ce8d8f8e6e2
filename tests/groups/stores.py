"""A store of each kind, on servers of this suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import MariaDB, PostgreSQL, RedisServer, ZooKeeper

LASTING = ("redis", "sqlite", "postgresql", "mariadb", "zookeeper")
"""Those that several processes can share."""


def store_url(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """Yield the URL of an empty store."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/groups.db"
    elif kind in {"postgresql", "mariadb"}:
        server = request.getfixturevalue(kind)
        assert isinstance(server, PostgreSQL | MariaDB)
        yield server.database()
    elif kind == "zookeeper":
        zookeeper = request.getfixturevalue("zookeeper")
        assert isinstance(zookeeper, ZooKeeper)
        yield zookeeper.url()
    else:
        redis = request.getfixturevalue("redis_server")
        assert isinstance(redis, RedisServer)
        space = redis.space()
        yield space.url
        redis.flush(space.place)
