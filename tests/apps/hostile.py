"""Tasks that hostile messages are for, and what Celery says became of those that did not start."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from celery import signals

from tests.apps.once import app
from tests.apps.shares import settings
from tests.hostile.mark import marked

__all__ = ["app"]

said = os.open(Path(f"{settings.records}.said"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def note(kind: str, *what: Any) -> None:
    """Say it in one write, of the message that is known by some of this."""
    line = json.dumps({"kind": kind, "number": marked(what), "what": repr(what)[:1000]})
    os.write(said, line.encode() + b"\n")


@signals.task_failure.connect(weak=False)
def failed(sender: Any, task_id: Any, args: Any, kwargs: Any, exception: Any, **_: Any) -> None:
    note("failed", exception, task_id, args, kwargs, vars(sender.request))


@signals.task_internal_error.connect(weak=False)
def failed_inside(task_id: Any, args: Any, request: Any, exception: Any, **_: Any) -> None:
    note("failed", exception, task_id, args, request)


@signals.task_revoked.connect(weak=False)
def revoked(request: Any, expired: bool, **_: Any) -> None:
    note("expired" if expired else "revoked", request.id, vars(request))
