"""Dead letters put where they belong, and the commands that look at them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner
from click.testing import Result as Outcome
from kombu import Connection

from celery_fair.cli import fair
from celery_fair.dead_letters.death import dead_letter_queue
from tests.brokers import Space
from tests.integration.conftest import gate

__all__ = ["Box", "gate"]

NAME = "dead-letters"


class Box:
    """The dead letters of one broker."""

    def __init__(self, url: str, **conf: Any) -> None:
        self.app = Celery("shop", broker=url, set_as_current=False)
        self.app.conf.update(conf)
        options = dict(conf.get("broker_transport_options", {}))
        if url.startswith("amqp"):
            options["confirm_publish"] = True  # or a command might look before a letter is there
        self.connection = Connection(url, transport_options=options)
        self.channel = self.connection.default_channel
        dead_letter_queue(NAME)(self.channel).declare()

    def put(
        self,
        task_id: Any = None,
        body: bytes | str = b"[[7], {}, {}]",
        *,
        bare: bool = False,
        content_type: str = "application/json",
        properties: dict[str, Any] | None = None,
        **headers: Any,
    ) -> None:
        """Put a letter behind the others; `may_have_started` means ``x-fair-may-have-started``."""
        known = {} if task_id is None else {"id": task_id}
        if not bare:
            known |= {
                "task": "shop.charge",
                "x-fair-reason": "malformed",
                "x-fair-queue": "orders",
                "x-fair-exchange": "",
                "x-fair-routing-key": "orders",
                "x-fair-worker": "celery@host",
                "x-fair-time": "2026-05-31T14:00:00+00:00",
                "x-fair-may-have-started": False,
            }
        known |= {
            name if name in {"task", "retries"} else _header(name): v for name, v in headers.items()
        }
        self.connection.Producer().publish(
            body,
            routing_key=NAME,
            headers={name: value for name, value in known.items() if value is not ...},
            content_type=content_type,
            content_encoding="binary" if isinstance(body, bytes) else "utf-8",
            **(properties or {}),
        )

    def declare(self, queue: str) -> None:
        self.channel.queue_declare(queue, durable=True, auto_delete=False)

    def run(self, *words: str, **options: Any) -> Outcome:
        obj = CLIContext(app=self.app, no_color=True, workdir=None)
        return CliRunner().invoke(fair, ["dead-letters", *words], obj=obj, **options)

    def list(self, *words: str) -> list[dict[str, Any]]:
        outcome = self.run("list", "--json", "--limit", "0", *words)
        assert outcome.exit_code == 0, outcome.output
        letters = json.loads(outcome.stdout)
        assert isinstance(letters, list)
        return letters

    def ids(self, *words: str) -> list[str]:
        return [letter["id"] for letter in self.list(*words)]

    def order(self, *words: str, status: int = 0, **options: Any) -> dict[str, Any]:
        """The report of a command that ends with this exit status."""
        outcome = self.run(*words, "--json", **options)
        assert outcome.exit_code == status, outcome.output
        report = json.loads(outcome.stdout)
        assert isinstance(report, dict)
        return report

    def get(self, queue: str) -> list[Any]:
        """Take all messages out of a queue; those that were replayed say when that was."""
        messages = []
        while (message := self.channel.basic_get(queue)) is not None:
            found = self.channel.message_to_python(message)
            if queue != NAME:
                assert 0 <= time.time() - found.headers.pop("x-fair-published") < 60
            found.ack()
            messages.append(found)
        return messages


def _header(name: str) -> str:
    return name if name in {"compression", "redelivered"} else f"x-fair-{name.replace('_', '-')}"


@pytest.fixture
def box(space: Space) -> Iterator[Box]:
    """The dead letters on each broker in turn."""
    box = Box(space.url)
    box.declare("orders")
    with box.connection:
        yield box
