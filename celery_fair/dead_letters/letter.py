"""A dead letter as it was found.

Malformed messages become dead letters too. So nothing here relies on a header being there, or being
of its type, or on the body being anything but bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from time import time
from typing import Any

from celery_fair.headers import FAIR_KEY, KEY, LEDGER, PREFIX, PUBLISHED

_OF_A_DELIVERY = {"redelivered", "x-delivery-count"}
"""Headers that a broker, or kombu's emulation of one, has put there."""

_DIGEST_LENGTH = 16  # of 64: 64 bits tell a million letters apart


@dataclass(frozen=True)
class Letter:
    """One message of the dead-letter queue.

    Attributes:
        headers: all of them.
        properties: the others of the message's properties, such as its priority.
        body: as it came, still compressed if it was.
        handle: what its queue finds it by.
        problem: why it is no message that could be replayed, if it is none.
    """

    headers: Mapping[Any, Any]
    properties: Mapping[Any, Any]
    body: bytes
    handle: Any = field(repr=False)
    problem: str | None = None

    @cached_property
    def id(self) -> str:
        """Its name on a command line: the task's id, if it has one, or its digest."""
        return self.text("id") or self.digest

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits, the same for the same message.

        Of a message with a task id the headers of its dead letter do not count: it is the same one
        if it was dead-lettered twice. Of others they do: nothing else tells one from another.
        """
        headers = self.fresh_headers if self.text("id") else self.headers
        lines = sorted(f"{_shown(name)}: {_shown(value)}" for name, value in headers.items())
        text = "\n".join(lines).encode(errors="backslashreplace")
        return sha256(text + b"\n\n" + self.body).hexdigest()[:_DIGEST_LENGTH]

    @property
    def fresh_headers(self) -> dict[Any, Any]:
        """The headers as they were before the message became a dead letter or was delivered."""
        return {name: value for name, value in self.headers.items() if not _is_later(name)}

    def replayed_headers(self) -> dict[Any, Any]:
        """Return the headers of a message that is published now."""
        kept = {LEDGER: self.headers[LEDGER]} if LEDGER in self.headers else {}
        return self.fresh_headers | kept | {PUBLISHED: time()}

    @property
    def task(self) -> str | None:
        """The task's name."""
        return self.text("task")

    @property
    def queue(self) -> str | None:
        """The queue it was in."""
        return self.text("x-fair-queue")

    @property
    def reason(self) -> str | None:
        """Why it is here."""
        return self.text("x-fair-reason")

    @property
    def may_have_started(self) -> bool | None:
        """Whether its task may have; None if it does not say."""
        value = self.headers.get("x-fair-may-have-started")
        return value if isinstance(value, bool) else None

    @cached_property
    def time(self) -> datetime | None:
        """When it became a dead letter."""
        try:
            time = datetime.fromisoformat(self.text("x-fair-time") or "")
            return time.replace(tzinfo=time.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError):
            return None

    @property
    def origin(self) -> tuple[str, str]:
        """The exchange and the routing key to publish it to again.

        Raises:
            ValueError: if its headers do not say where it was.
        """
        exchange = self.headers.get("x-fair-exchange") or ""
        key = self.headers.get("x-fair-routing-key") or ""
        if not isinstance(exchange, str) or not isinstance(key, str):
            raise ValueError(
                f"x-fair-exchange {exchange!r} and x-fair-routing-key {key!r} do not say where it"
                " was: both must be text"
            )
        if exchange:
            return exchange, key
        if not self.queue:
            raise ValueError(
                f"x-fair-queue {self.headers.get('x-fair-queue')!r} does not say where it was"
            )
        return "", self.queue

    def text(self, name: str) -> str | None:
        """Return a header if it is text, and not empty."""
        value = self.headers.get(name)
        return value if isinstance(value, str) and value else None


def _is_later(name: Any) -> bool:
    ours = isinstance(name, str) and name.startswith(PREFIX) and name not in {KEY, FAIR_KEY}
    return ours or name in _OF_A_DELIVERY


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "(nested too deeply)"
