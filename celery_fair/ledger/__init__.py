"""A ledger: which work was claimed, before it started, by which message.

It makes two things of the doubt about a redelivered message: one whose work is claimed may have
started, one whose work is not provably has not. And of several messages for the same work it lets
one start.

"Not claimed" proves something only while the ledger cannot have forgotten. It therefore carries an
*epoch*: the time since which it has forgotten nothing. A ledger that was emptied or, on Redis,
restarted (it may have lost its last claims) or has evicted keys has a new one; and it forgets a
claim after its expiry. See `celery_fair.core.disposition.proves_unstarted`.

Imported from here; the two kinds need packages that are extras::

    redis_ledger.py  one script, claim.lua, by the server's clock
    sql_ledger.py    one statement, on any database that SQLAlchemy speaks to
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

from celery.exceptions import ImproperlyConfigured

__all__ = ["Claim", "Ledger", "LedgerUnreachableError", "ledger_at"]


class LedgerUnreachableError(Exception):
    """The ledger does not answer. The text is that of its client."""


class Claim(NamedTuple):
    """What the ledger answers."""

    owner: str | None  # who has the claim already; None: it is ours now
    epoch: float  # seconds since 1970: since then nothing is forgotten but by expiry
    now: float  # seconds since 1970


class Ledger(ABC):
    """All may raise `LedgerUnreachableError`.

    Arguments:
        url: of its database.
        expiry: seconds after which a claim is forgotten.
    """

    def __init__(self, url: str, expiry: float) -> None:
        self.url = url
        self.expiry = expiry

    @abstractmethod
    def claim(self, key: str, owner: str, doubt: bool) -> Claim:
        """Claim the work that `key` names for a message, in one round trip.

        Arguments:
            key: at most 200 characters.
            owner: the message's task id, or whatever tells it from others.
            doubt: whether the answer's epoch matters: a redelivered message is asked for.
        """

    @abstractmethod
    def forget(self, key: str) -> None:
        """Give a claim up: the work has not been started, or is to be done again."""

    @abstractmethod
    def renew(self) -> None:
        """Begin a new epoch: something may have started without a claim."""

    def close(self) -> None:
        """Leave nothing open."""


def ledger_at(url: str, expiry: float) -> Ledger:
    """Return the ledger of a URL.

    Raises:
        celery.exceptions.ImproperlyConfigured: no client can be made for it.
    """
    scheme = url.partition(":")[0]
    try:
        if scheme in ("redis", "rediss", "unix"):
            from celery_fair.ledger.redis_ledger import RedisLedger

            return RedisLedger(url, expiry)
        from celery_fair.ledger.sql_ledger import SqlLedger

        return SqlLedger(url, expiry)
    except ImportError as exc:
        extra = "redis" if scheme in ("redis", "rediss", "unix") else "sql"
        raise ImproperlyConfigured(
            f"fair_ledger = '{scheme}://…' needs a package ({exc}): pip install"
            f" celery-fair[{extra}], and a database its driver"
        ) from exc
