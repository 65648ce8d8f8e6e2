"""Groups of workers that share partitions: where their documents are kept.

A store does three things, each of them atomic: it reads a group's document with its version and the
store's own time, it writes another document if the version is still that, and it makes its schema.
What a document says, and who may write what, is `celery_fair.core.groups.membership`'s business.

Imported from here; the kinds need packages that are extras::

    redis_store.py      a hash for each group; scripts read.lua and write.lua
    sql_store.py        a row for each group, on PostgreSQL, MariaDB and SQLite
    zookeeper_store.py  a node for each group; zookeeper_session.py connects
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

from celery.exceptions import ImproperlyConfigured

__all__ = ["GroupStore", "Snapshot", "StoreUnreachableError", "store_at"]

_EXTRAS = {"redis": "redis", "rediss": "redis", "unix": "redis", "zookeeper": "zookeeper"}


class StoreUnreachableError(Exception):
    """The store does not answer. The text is that of its client."""


class Snapshot(NamedTuple):
    """A group's document as it was at a moment."""

    version: int  # 0: there is none yet
    text: str | None
    now: float  # seconds, by the store's clock


class GroupStore(ABC):
    """All may raise `StoreUnreachableError`."""

    @abstractmethod
    def read(self, group: str) -> Snapshot:
        """Return the group's document."""

    @abstractmethod
    def write(self, group: str, version: int, text: str) -> bool:
        """Write the document if the version is still the one that was read; return whether it was.

        The next version is greater.
        """

    def create(self) -> dict[str, bool]:
        """Make what the store needs; return, for each part of it, whether it was missing."""
        return {}

    def close(self) -> None:
        """Leave nothing open."""


def store_at(url: str) -> GroupStore:
    """Return the store of a URL.

    Raises:
        celery.exceptions.ImproperlyConfigured: there is no store of the kind, or no client.
    """
    scheme = url.partition(":")[0]
    extra = _EXTRAS.get(scheme, "sql")
    try:
        if extra == "redis":
            from celery_fair.groups.redis_store import RedisStore

            return RedisStore(url)
        if extra == "zookeeper":
            from celery_fair.groups.zookeeper_store import ZookeeperStore

            return ZookeeperStore(url)
        from celery_fair.groups.sql_store import SqlStore

        return SqlStore(url)
    except ImportError as exc:
        raise ImproperlyConfigured(
            f"fair_group_store = '{scheme}://…' needs a package ({exc}): pip install"
            f" celery-fair[{extra}], and a database its driver. There are redis://…, zookeeper://…,"
            " sqlite:///…, postgresql+psycopg://… and mariadb+pymysql://…"
        ) from exc
