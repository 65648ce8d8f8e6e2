"""Dead letters that are replayed or purged: first planned, then, if that is what is wanted, done.

What is done is what was shown: an order knows its letters by their digests, and letters that have
come since then are left alone. It is done in batches, each of which looks for its letters anew, so
that a lost connection ends a batch and not the rest.

On RabbitMQ whoever looks at the dead letters has them all in hand: there is one at a time here.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from uuid import uuid4

from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.letter_queue import LetterQueue
from celery_fair.dead_letters.plan import Report
from celery_fair.operate import dead_letters
from celery_fair.operate.dead_letters import Provable, opened
from celery_fair.web.actions import NotDoneError

KINDS = ("replay", "replay-proven", "replay-may-have-started", "purge")
"""Replay what says that it never started, what the event log has proven, or all; or remove."""

_BATCH = 10_000
"""Letters that are planned and done at a time."""

_KEPT = 50
"""Orders that are remembered."""

_PATIENCE = 5.0
"""Seconds that a look waits for another one to end."""

_GOODBYE = 5.0
"""Seconds that the end of the server waits for an order to stop."""

_TOLD = 20
"""Failures that are told one by one."""


@dataclass
class Order:
    """Letters, and what is to be done with them.

    Attributes:
        why: the reason that somebody gave for replaying what may have started.
        digests: of the messages that it will be done with.
        refused: messages that may have started, and are left.
        state: "planned", "running", "ended".
        done: messages that it was done with.
        failed: what went wrong, by letter; the first of `failures`.
        trouble: what ended all of it.
    """

    who: str
    kind: str
    why: str
    digests: Sequence[str]
    refused: int = 0
    failures: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    id: str = field(default_factory=lambda: uuid4().hex)
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    state: str = "planned"
    done: int = 0
    tried: int = 0
    trouble: str = ""
    stop: Event = field(default_factory=Event)
    _lock: Any = field(default_factory=Lock, repr=False)

    @property
    def purges(self) -> bool:
        """Whether letters are removed, rather than published again."""
        return self.kind == "purge"

    def begin(self) -> bool:
        """Let one caller do it; whether this is the one."""
        with self._lock:
            if self.state != "planned":
                return False
            self.state = "running"
            return True

    def put_off(self) -> None:
        """It was not done; it may be begun again."""
        self.state = "planned"

    def take(self, report: Report) -> None:
        """Take in what became of a batch."""
        self.failures += len(report.failed)
        self.failed |= dict(islice(report.failed.items(), max(0, _TOLD - len(self.failed))))

    def result(self) -> dict[str, str]:
        """Return what became of it, for the log of actions."""
        said = f"{self.done} {'removed' if self.purges else 'replayed'}"
        if self.refused:
            said += f", {self.refused} left, as they may have started"
        if self.failures:
            said += f", {self.failures} failed"
        if self.tried < len(self.digests):
            said += f", {len(self.digests) - self.tried} not tried"
        return {"all": f"{said}; {self.trouble}" if self.trouble else said}


class Orders:
    """The dead letters of an app, and what was ordered of them.

    Arguments:
        provable: a file of ``pipeline audit --ids-out``, read for each plan; None for none.
    """

    def __init__(self, app: Any, provable: Path | None = None) -> None:
        self._app = app
        self.provable = provable
        self._in_hand = Lock()
        self._orders: dict[str, Order] = {}
        self._threads: list[Thread] = []

    @contextmanager
    def letters(self) -> Iterator[LetterQueue]:
        """Give the dead letters, to one at a time.

        Raises:
            NotDoneError: another one has them.
            OperateError: as `opened`.
        """
        if not self._in_hand.acquire(timeout=_PATIENCE):
            raise NotDoneError(
                "The dead letters are in hand, by an order that runs or somebody who looks: try"
                " again in a moment."
            )
        try:
            with opened(self._app) as queue:
                yield queue
        finally:
            self._in_hand.release()

    def plan(self, who: str, kind: str, why: str, wanted: Callable[[Letter], bool]) -> Order:
        """Look which letters an order is about; nothing is done.

        Raises:
            NotDoneError, OperateError: as `letters`.
            NotDoneError: the file of what is provable cannot be read.
        """
        with self.letters() as queue:
            plan = self._order(kind, wanted).plan(queue)
        report = plan.report
        order = Order(who, kind, why, list(plan.todo), refused=len(report.refused))
        order.take(report)
        self._orders[order.id] = order
        for old in list(self._orders)[:-_KEPT]:
            if self._orders[old].state != "running":
                del self._orders[old]
        return order

    def get(self, id_: str) -> Order | None:
        """Return an order."""
        return self._orders.get(id_)

    def recent(self) -> list[Order]:
        """Return those that were begun, the last one first."""
        return [each for each in reversed(self._orders.values()) if each.state != "planned"]

    def start(self, order: Order, ended: Callable[[Order], Any]) -> None:
        """Do one that was begun, in a thread.

        Arguments:
            ended: called when it has ended.
        """
        thread = Thread(target=self._run, args=(order, ended), name="order", daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def close(self) -> None:
        """Stop what runs after the letter that it is at."""
        for order in self._orders.values():
            order.stop.set()
        for thread in self._threads:
            thread.join(_GOODBYE)

    def _run(self, order: Order, ended: Callable[[Order], Any]) -> None:
        try:
            for first in range(0, len(order.digests), _BATCH):
                if order.stop.is_set():
                    break
                self._do(order, frozenset(order.digests[first : first + _BATCH]))
        except Exception as exc:  # noqa: BLE001 - of any transport; it is told on the page
            order.trouble = str(exc) or type(exc).__name__
        finally:
            order.state = "ended"
            ended(order)

    def _do(self, order: Order, batch: frozenset[str]) -> None:
        def tick(count: int) -> None:
            order.tried += count

        wanted = self._order(order.kind, lambda letter: letter.digest in batch)
        with self.letters() as queue:
            plan = wanted.plan(queue)
            gone = len(batch) - len(plan.wanted())
            report = wanted.do(self._app, queue, plan, order.stop.is_set, tick)
        order.tried += gone
        order.done += len(set(report.done))
        order.take(report)
        if gone:
            order.failures += gone
            order.failed.setdefault("others", f"{gone} are not there any more")

    def _order(self, kind: str, wanted: Callable[[Letter], bool]) -> dead_letters.Order:
        return dead_letters.Order(
            wanted,
            purges=kind == "purge",
            may_have_started=kind == "replay-may-have-started",
            proven=self._proven() if kind == "replay-proven" else None,
        )

    def _proven(self) -> Provable:
        if self.provable is None:
            raise NotDoneError("no file of what is provable was given (--provable)")
        try:
            return Provable(self.provable)
        except ValueError as exc:
            raise NotDoneError(str(exc)) from exc
