"""A ledger: which work was claimed, before it started, by which message.

It settles the doubt about a redelivered message: if its work is claimed, it may have started; if
not, it provably has not. And of several messages for the same work it lets only one start.

"Not claimed" proves something only while the ledger cannot have forgotten. It therefore carries an
*epoch*: the time since which it has forgotten nothing. One that was emptied or, but for SQLite,
restarted (it may have lost its last claims) or has evicted keys has a new one; and it forgets a
claim after its expiry, for one of which an epoch holds: a claim with another begins a new one.

Nor does it prove anything of what a worker without the ledger may have started. Therefore whoever
runs the workers says since when there is none (``fair_ledger_since``), publishers say in each
message which ledger it is that may be asked about it, and a worker that has another one, or none,
marks such a message before it starts it. See `celery_fair.core.disposition.proves_unstarted` and
`celery_fair.worker.launch.admission`.

Imported from here; the two kinds need packages that are extras::

    redis_ledger.py  one script, claim.lua, by the server's clock
    sql_ledger.py    one statement, on PostgreSQL, MariaDB and SQLite
"""

import re
from abc import ABC, abstractmethod
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from celery.exceptions import ImproperlyConfigured

__all__ = ["Claim", "Ledger", "LedgerUnreachableError", "fingerprint", "ledger_at"]


_REDIS = ("redis", "rediss", "unix")

# What stands before the host, as each kind's client reads it.
_REDIS_USER = re.compile(r"[^/?#]*@")
_SQL_USER = re.compile(r"[^:/]*(:[^@]*)?@")

_PLACE = frozenset(
    ("database", "db", "dbname", "host", "hostaddr", "options", "port", "service", "unix_socket")
)
"""Options of a URL that say which database it is; ``options`` may name PostgreSQL's schema."""


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
    def claim(self, key: str, owner: str, doubt: bool, late: str = "") -> Claim:
        """Claim the work that `key` names for a message, in one round trip.

        Arguments:
            key: at most 200 characters; see `celery_fair.tasks.claimable`.
            owner: the message's task id, or whatever distinguishes it from others, and its attempt
                to claim; at most 250 characters.
            doubt: whether the answer's epoch matters: a redelivered message is asked for.
            late: an owner that had no answer, and has started nothing: its claim becomes ours.
        """

    @abstractmethod
    def forget(self, key: str) -> None:
        """Give a claim up: the work has not been started, or is to be done again."""

    @abstractmethod
    def renew(self) -> None:
        """Begin a new epoch: something may have started without a claim."""

    def close(self) -> None:
        """Leave nothing open."""


def fingerprint(url: str) -> str:
    """Return what names a ledger in a message: sixteen digits, in which no password is.

    Of two URLs with the same name it is taken for granted that they lead to the same ledger. A
    file whose path is relative is one of this folder.
    """
    scheme, _, rest = url.partition("://")
    user = (_REDIS_USER if scheme in _REDIS else _SQL_USER).match(rest)
    place, _, query = rest[user.end() if user else 0 :].partition("?")
    if scheme.partition("+")[0] == "sqlite":
        place = f"/{Path(place[1:]).absolute()}"
    options = sorted(each for each in query.split("&") if each.partition("=")[0] in _PLACE)
    named = "?".join([f"{scheme}://{place}", *options])
    return sha256(named.encode()).hexdigest()[:16]


def ledger_at(url: str, expiry: float) -> Ledger:
    """Return the ledger of a URL.

    Raises:
        celery.exceptions.ImproperlyConfigured: no client can be made for it.
    """
    scheme = url.partition(":")[0]
    try:
        if scheme in _REDIS:
            from celery_fair.ledger.redis_ledger import RedisLedger

            return RedisLedger(url, expiry)
        from celery_fair.ledger.sql_ledger import SqlLedger

        return SqlLedger(url, expiry)
    except ImportError as exc:
        extra = "redis" if scheme in _REDIS else "sql"
        raise ImproperlyConfigured(
            f"fair_ledger = '{scheme}://…' needs a package ({exc}): pip install"
            f" celery-fair[{extra}], and a database its driver. There are redis://…, sqlite:///…,"
            " postgresql+psycopg://… and mariadb+pymysql://…"
        ) from exc
