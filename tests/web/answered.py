"""Answers of workers as they come, without workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from celery_fair.brokers.depths import Depth
from celery_fair.operate.answers import Answers


def row(**figures: Any) -> dict[str, Any]:
    """One queue, as a worker answers to ``fair_status``."""
    return {
        "quantum": 10.0,
        "by_key": False,
        "class": 0,
        "credit": 0.0,
        "window": 20,
        "buffered": 0,
        "in_flight": 0,
        "served": 0,
        "waiting_seconds": 0.0,
        "oldest_published": None,
        "aim": None,
        "held": None,
        "throttled_seconds": 0.0,
        "rate": None,
        "burst": None,
        "max_in_flight": None,
        "target_share": 0.0,
        "share": 0.0,
        "cost_per_second": 0.0,
        "per_second": 0.0,
    } | figures


def answers(workers: Mapping[str, Any]) -> Answers:
    return Answers.of(workers, (), 1.0)


class KnownDepths:
    """What the broker says, known beforehand."""

    def __init__(self, messages: Mapping[str, int] | None = None) -> None:
        self.messages = dict(messages or {})
        self.asked: set[str] = set()

    def start(self) -> None:
        pass

    def ask_about(self, queues: Iterable[str]) -> None:
        self.asked = set(queues)

    def of(self, queue: str) -> Depth | None:
        return Depth(self.messages[queue], 0.0, 0.0) if queue in self.messages else None

    def close(self) -> None:
        pass
