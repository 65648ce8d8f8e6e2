"""Dead letters that are replayed or purged: first planned, then, if that is what is wanted, done.

What is done is what was shown: an order knows its letters by their digests, and letters that have
come since then are left alone.

On RabbitMQ whoever looks at the dead letters has them all in hand: there is one at a time here.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Lock, Thread
from typing import Any
from uuid import uuid4

from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.letter_queue import LetterQueue
from celery_fair.dead_letters.plan import Report
from celery_fair.operate import dead_letters
from celery_fair.operate.dead_letters import opened
from celery_fair.operate.errors import InvalidRequestError
from celery_fair.web.actions import Action, ActionLog

KINDS = ("replay", "replay-may-have-started", "purge")
"""Replay what says that it never started, or all; or remove."""

_KEPT = 50
"""Orders that are remembered."""

_PATIENCE = 5.0
"""Seconds that a look waits for another one to end."""

_GOODBYE = 5.0
"""Seconds that the end of the server waits for an order to stop."""


@dataclass
class Order:
    """Letters, and what is to be done with them.

    Attributes:
        why: the reason that somebody gave for replaying what may have started.
        digests: of the messages that it will be done with.
        planned: what cannot be done with others.
        state: "planned", "running", "ended".
        report: what became of it, so far.
        tried: messages that were done or failed.
        gone: messages that were not there any more.
        trouble: what ended all of it.
    """

    who: str
    kind: str
    why: str
    digests: Collection[str]
    planned: Report
    id: str = field(default_factory=lambda: uuid4().hex)
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    state: str = "planned"
    report: Report = field(default_factory=Report)
    tried: int = 0
    gone: int = 0
    trouble: str = ""
    stop: Event = field(default_factory=Event)
    thread: Thread | None = None

    @property
    def purges(self) -> bool:
        """Whether letters are removed, rather than published again."""
        return self.kind == "purge"

    @property
    def done(self) -> int:
        """Messages that it was done with."""
        return len(set(self.report.done))

    @property
    def failed(self) -> Mapping[str, str]:
        """What went wrong, by letter."""
        return self.planned.failed | self.report.failed

    def result(self) -> dict[str, str]:
        """Return what became of it, for the log of actions."""
        counts = {
            "removed" if self.purges else "replayed": self.done,
            "left, as they may have started": len(self.planned.refused),
            "failed": len(self.failed),
            "not there any more": self.gone,
            "not tried": len(self.digests) - self.gone - self.tried,
        }
        said = [f"{count} {what}" for what, count in counts.items() if count]
        return {"all": ", ".join(said or ["nothing"]) + (self.trouble and f"; {self.trouble}")}


class Orders:
    """The dead letters of an app, and what was ordered of them."""

    def __init__(self, app: Any, log: ActionLog) -> None:
        self._app = app
        self._log = log
        self._in_hand = Lock()
        self._starting = Lock()
        self._orders: dict[str, Order] = {}

    @contextmanager
    def letters(self) -> Iterator[LetterQueue]:
        """Give the dead letters, to one at a time.

        Raises:
            InvalidRequestError: another one has them.
            OperateError: as `opened`.
        """
        if not self._in_hand.acquire(timeout=_PATIENCE):
            raise InvalidRequestError(
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
            InvalidRequestError, OperateError: as `letters`.
        """
        with self.letters() as queue:
            plan = _meant(kind, wanted).plan(queue)
        order = Order(who, kind, why, plan.todo.keys(), plan.report)
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

    def start(self, order: Order) -> None:
        """Do what was planned, in a thread.

        Raises:
            InvalidRequestError: it was begun already.
            HTTPException: it cannot be written down.
        """
        details = {"letters": len(order.digests), "why": order.why}
        details["digests"] = list(order.digests)[:1000]
        with self._starting:
            if order.state != "planned":
                raise InvalidRequestError("This order was begun already.")
            action = self._log.begin(order.who, order.kind, "dead letters", details)
            order.state = "running"
        order.thread = Thread(target=self._run, args=(order, action), name="order", daemon=True)
        order.thread.start()

    def close(self) -> None:
        """Stop what runs after the letter that it is at."""
        for order in self._orders.values():
            order.stop.set()
        for order in self._orders.values():
            if order.thread is not None:
                order.thread.join(_GOODBYE)

    def _run(self, order: Order, action: Action) -> None:
        def tick(count: int) -> None:
            order.tried += count

        try:
            meant = _meant(order.kind, lambda letter: letter.digest in order.digests)
            with self.letters() as queue:
                plan = meant.plan(queue)
                order.report = plan.report
                order.gone = len(order.digests) - len(plan.wanted())
                meant.do(self._app, queue, plan, order.stop.is_set, tick)
        except Exception as exc:  # noqa: BLE001 - of any transport; it is told on the page
            order.trouble = str(exc) or type(exc).__name__
        finally:
            order.state = "ended"
            self._log.end(action, order.result())


def _meant(kind: str, wanted: Callable[[Letter], bool]) -> dead_letters.Order:
    may_have_started = kind == "replay-may-have-started"
    return dead_letters.Order(wanted, purges=kind == "purge", may_have_started=may_have_started)
