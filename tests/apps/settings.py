"""What a test tells the app in a worker process, as JSON in the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

VARIABLE = "CELERY_FAIR_TEST_APP"
CONSTANTS = "constants"
"""Beside settings: constants of modules, by dotted name, that are other ones in this worker."""

GIVEN_BACK_AFTER = "celery_fair.worker.queues.held.LONGEST_WAIT"
TRIED_AFTER = "celery_fair.worker.launch.admission._RETRY"
PATIENCE = "celery_fair.core.window._PATIENCE"
PULL_INTERVAL = "celery_fair.worker.session._PULL_INTERVAL"


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

    def set_constants(self) -> None:
        """Before the worker is made, which reads them then."""
        for name, value in self.conf.pop(CONSTANTS, {}).items():
            module, _, constant = name.rpartition(".")
            assert hasattr(import_module(module), constant)
            setattr(import_module(module), constant, value)
