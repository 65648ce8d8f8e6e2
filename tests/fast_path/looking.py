"""Tasks that write down their requests, on a worker that writes down which way they came."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from celery import signals
from celery.worker.request import Request
from celery.worker.strategy import default

from celery_fair.worker.fast_path.fast_requests import FastRequests
from tests.apps.shares import *  # noqa: F403
from tests.apps.shares import app

FOLDER = Path(os.environ["LOOKING"])

if os.environ["LISTENING"]:
    getattr(signals, os.environ["LISTENING"]).connect(lambda **_: None, weak=False)

make = FastRequests.request


def note(self: FastRequests, message: Any) -> Any:
    request = make(self, message)
    way = FOLDER / f"{message.headers.get('id')}.way"
    way.write_text("long" if request is None else "short")
    return request


FastRequests.request = note  # type: ignore[method-assign]


def look(self: Any, *args: Any, again: bool = False, **kwargs: Any) -> None:
    request = {name: repr(value) for name, value in vars(self.request).items()}
    path = FOLDER / f"{self.request.id}.{self.request.retries}"
    new = path.with_suffix(".new")
    new.write_text(json.dumps(request | {"arguments": repr((args, again, kwargs))}))
    new.rename(path)
    if again and not self.request.retries:
        raise self.retry(countdown=0)


class OwnRequest(Request):
    pass


strategy = default

app.task(bind=True, name="look", max_retries=1)(look)
app.task(bind=True, name="own_request", Request=f"{__name__}:OwnRequest")(look)
app.task(bind=True, name="own_strategy", Strategy=f"{__name__}:strategy")(look)
app.task(bind=True, name="limited", rate_limit="1000/s")(look)
