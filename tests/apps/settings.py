"""What a test tells the app in a worker process, as JSON in the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

VARIABLE = "CELERY_FAIR_TEST_APP"


@dataclass
class AppSettings:
    broker_url: str
    records: str = ""
    """Path prefix of the files in which tasks record what they do."""
    queues: list[str] | None = None
    """Goes into `task_queues`; None leaves that setting alone."""
    queue_arguments: dict[str, Any] = field(default_factory=dict)
    fair: bool = True
    """Add the FairConsumerStep; otherwise this is vanilla Celery."""
    conf: dict[str, Any] = field(default_factory=dict)
    ready_fd: int | None = None
    """Gets a line when the worker is ready."""

    def environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> AppSettings:
        return cls(**json.loads(environment[VARIABLE]))
