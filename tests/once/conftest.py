"""Reading dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kombu import Connection

from celery_fair.dead_letters.death import dead_letter_queue
from tests.brokers import Space
from tests.integration.conftest import gate

__all__ = ["gate"]

DeadLetters = Callable[[], dict[str, dict[str, Any]]]


@pytest.fixture
def dead_letters(space: Space) -> Iterator[DeadLetters]:
    """All dead letters that have come so far: the headers, by task id; one twice is an error."""
    seen: dict[str, dict[str, Any]] = {}

    def read(channel: Any) -> None:
        queue = dead_letter_queue("dead-letters")(channel)
        queue.declare()
        while (message := queue.get()) is not None:
            message.ack()
            id_ = message.headers.get("id", "")  # one of the first protocol has it elsewhere
            assert id_ not in seen
            seen[id_] = message.headers

    with Connection(space.url) as connection:  # asked often, and over killed brokers' returns
        again = connection.autoretry(read, max_retries=3)

        def found() -> dict[str, dict[str, Any]]:
            again()
            return seen

        yield found
