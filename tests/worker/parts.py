"""Messages, requests and ports that record what is asked of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kombu.message import Message

from celery_fair.core.dwrr import Flow
from celery_fair.tasks import NonRepeatableTask
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.wake_up import WakeUp
from tests.feeds import gate, ports


class Channel:
    """Takes acknowledgements, unless it is told to fail."""

    Message = Message

    def __init__(self) -> None:
        self.acknowledged: list[Any] = []
        self.error: Exception | None = None
        self.no_ack_consumers = None

    def basic_ack(self, tag: Any, multiple: bool = False) -> None:
        if self.error is not None:
            raise self.error
        self.acknowledged.append(tag)

    def basic_reject(self, tag: Any, requeue: bool = False) -> None:
        self.acknowledged.append((tag, requeue))

    def close(self) -> None: ...


class Shelf(Feed):
    """A queue whose messages come when a test says so."""

    def open(self) -> None: ...

    def cancel(self) -> None: ...

    def _apply_window(self) -> None: ...

    def asks_if_open(self) -> bool:
        return True

    def put(self, *ids: str, **headers: Any) -> list[Any]:
        """Deliver messages; returns them."""
        made = []
        for id_ in ids:
            message = self.channel.Message(
                body="[[], {}, {}]",
                channel=self.channel,
                delivery_tag=id_,
                delivery_info={"routing_key": self.name},
                headers={"id": id_, "task": "t", **headers},
                content_type="application/json",
                content_encoding="utf-8",
            )
            self._receive(message)
            made.append(message)
        self.reports.arrived(self)
        return made


def shelf(
    name: str = "q",
    quantum: float = 1.0,
    flow: Flow | None = None,
    kind: type[Shelf] = Shelf,
    **more: Any,
) -> Shelf:
    made: dict[str, Any] = {
        "flow": flow or Flow(name, quantum),
        "gate": gate(quantum),
        "ports": ports(),
        "window": 100,
    }
    return kind(queue=Queue(name), channel=Channel(), **made | more)


class Queue:
    """As much of kombu's as a feed asks."""

    no_declare = False

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, channel: Any) -> Queue:
        return self


class Request:
    """As much of Celery's as launcher and admission ask."""

    time_limits = (None, None)
    _payload: Any = ((), {}, {})
    _already_revoked = False

    def __init__(self, message: Any, task: Any = None) -> None:
        self.message = message
        self.id, self.name = message.headers["id"], message.headers["task"]
        self.task = task or SimpleNamespace(name="t", acks_late=False)
        self.acknowledged = False
        self.is_revoked = False
        self.events: list[str] = []

    def revoked(self) -> bool:
        return self.is_revoked

    def send_event(self, name: str, **_: Any) -> None:
        self.events.append(name)


def non_repeatable(ack: str = "before", confirm: bool = False) -> NonRepeatableTask:
    """A task of this kind, of no app."""
    body = {"ack": ack, "confirm": confirm, "run": lambda self: None}
    kind: Any = type("Once", (NonRepeatableTask,), body)
    task: NonRepeatableTask = kind()
    return task


class Silent(WakeUp):
    """Counts how often it was asked, and keeps the times that it is asked for."""

    def __init__(self) -> None:
        super().__init__(None)
        self.rings = 0
        self.times: list[float] = []

    def soon(self) -> None:
        self.rings += 1

    arrived = soon

    def at(self, when: float) -> None:
        self.times.append(when)


class Burials:
    """Dead letters that go nowhere; by id, the reason and whether it may have started."""

    def __init__(self) -> None:
        self.buried: dict[str, tuple[str, bool]] = {}
        self.raw: list[bytes] = []

    def dead_letter(
        self,
        message: Any,
        reason: str,
        detail: str = "",
        may_have_started: bool = True,
    ) -> None:
        self.buried[message.headers["id"]] = (reason, may_have_started)

    def dead_letter_raw(self, channel: Any, queue: str, raw: bytes, detail: str) -> None:
        self.raw.append(raw)
