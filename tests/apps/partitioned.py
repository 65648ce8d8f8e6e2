"""Tasks of partitions, and a record of what is assigned and revoked."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from celery_fair import (
    NonRepeatableTask,
    install,
    partitions_assigned,
    partitions_revoked,
    rebalance_failed,
)
from celery_fair.headers import KEY
from tests.apps.fenced import Effect, Fenced
from tests.apps.shares import app, finish, settings, start, wait_at, work_for

install(app)
events = Path(f"{settings.records}.events")
database = Fenced(Path(f"{settings.records}.db"))


def note(kind: str, **said: Any) -> None:
    line = {"kind": kind, "at": time.monotonic(), **said}
    with events.open("a") as file:
        file.write(json.dumps(line) + "\n")


@partitions_assigned.connect(weak=False)
def assigned(sender: Any, partitions: dict[str, int], **_: Any) -> None:
    note("assigned", worker=sender.hostname, partitions=partitions)


@partitions_revoked.connect(weak=False)
def revoked(sender: Any, partitions: set[str], **_: Any) -> None:
    note("revoked", worker=sender.hostname, partitions=sorted(partitions))


@rebalance_failed.connect(weak=False)
def failed(sender: Any, message: str, will_recover: bool, exception: Exception, **_: Any) -> None:
    said = {"message": message, "will_recover": will_recover}
    said |= {"exception": type(exception).__name__, "text": str(exception)}
    note("failed", worker=sender.hostname, **said)


def keyed(
    self: Any, seq: int, key: str, number: int, seconds: float = 0, gate: str | None = None
) -> None:
    """Work on a key; what it did is written down, and done, with the token that it has."""
    start(self, seq)
    partition, token = self.request.delivery_info["routing_key"], self.request.fair_token
    did = {"key": key, "number": number, "partition": partition, "token": token}
    did |= {"id": self.request.id, "worker": self.request.hostname}
    note("began", retries=self.request.retries, by=vars(self.request)[KEY], **did)
    database.take(Effect(partition, token, "began", self.request.id))
    work_for(seconds)
    if gate is not None:
        wait_at(gate)
    if not database.take(Effect(partition, token, "ended", self.request.id)):
        note("refused", **did)
    note("ended", **did)
    finish(self, seq)


def keyed_again(self: Any, *args: Any, **kwargs: Any) -> None:
    """The same, and a second time."""
    keyed(self, *args, **kwargs)
    if not self.request.retries:
        raise self.retry(countdown=0)


app.task(bind=True, name="keyed", shared=False)(keyed)
app.task(bind=True, name="keyed_again", shared=False)(keyed_again)
app.task(base=NonRepeatableTask, bind=True, name="keyed_once", shared=False)(keyed)
