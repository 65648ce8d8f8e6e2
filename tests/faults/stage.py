"""What a scene is like beside its broker, its queues' type and its pool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.apps.settings import CONSTANTS, GIVEN_BACK_AFTER

__all__ = ["BRIEF", "COUNTED", "IMPATIENT", "LIMIT", "PLAIN", "TIMELY", "Stage"]


@dataclass(frozen=True)
class Stage:
    """Of a broker's settings, those of the application RabbitMQ."""

    name: str = ""
    conf: dict[str, Any] = field(default_factory=dict)
    """Of workers."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Of queues."""
    rabbit: dict[str, int] = field(default_factory=dict)
    """Which it then has to itself."""


PLAIN = Stage()

_RUNS_OUT = {"consumer_timeout": 2_000, "channel_tick_interval": 500}
"""In milliseconds; it looks that often. By default thirty minutes and one."""
IMPATIENT = Stage("impatient", rabbit=_RUNS_OUT)
TIMELY = Stage("timely", {CONSTANTS: {GIVEN_BACK_AFTER: 0.5}}, rabbit=_RUNS_OUT)

LIMIT = 2
COUNTED = Stage("counted", arguments={"x-delivery-limit": LIMIT})

_ANSWERS = dict.fromkeys(("read_timeout", "write_timeout", "socket_timeout"), 2)
BRIEF = Stage("brief", {"broker_transport_options": _ANSWERS})
"""Whose workers wait for an answer for two seconds, instead of ten."""
