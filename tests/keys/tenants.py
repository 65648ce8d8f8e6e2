"""Messages of tenants, and whose they were that started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from celery import Celery

from celery_fair import install
from tests.brokers import Space
from tests.integration import depths
from tests.publishing import publish
from tests.records import RecordFile

QUEUE = "jobs"
KEYED: dict[str, Any] = {"fair_keys": {QUEUE: {}}}


def left(space: Space) -> int:
    """Messages of the queue, and of its keys' lists, that are not gone for good."""
    return depths.left(space, QUEUE)


def publisher(url: str, **conf: Any) -> Celery:
    """Return an app that publishes with this library."""
    app = Celery("shop", broker=url, set_as_current=False)
    app.conf.update(KEYED, task_default_queue=QUEUE, task_ignore_result=True, **conf)
    return install(app)


def send(app: Celery, key: Any, count: int = 1, **options: Any) -> list[str]:
    """Publish so many messages of a key; return their ids."""
    return [app.send_task("noop", [n], fair_key=key, **options).id for n in range(count)]


def at(starts: list[Any], what: object, nth: int) -> int:
    """Return which of `starts` is the `nth` of `what`: by then RabbitMQ has found its lane."""
    return [number for number, start in enumerate(starts) if start == what][nth - 1]


class Tenants:
    """Publishes, and knows whose message has which id.

    Arguments:
        installed: whether by publishers with this library.
    """

    def __init__(self, url: str, installed: bool = False) -> None:
        self._url = url
        self._installed = installed
        self.of: dict[str, str] = {}

    def publish(
        self,
        counts: Mapping[str, int],
        task: str = "noop",
        args: Sequence[Any] = (),
        **options: Any,
    ) -> list[str]:
        """So many messages of each, one tenant's behind the other's; return their ids."""
        published = []
        for tenant, count in counts.items():
            options["headers"] = {"x-fair-key": tenant}
            if self._installed:
                ids = self._sent(count, task, args, **options)
            else:
                ids = publish(self._url, {QUEUE: count}, task, args, **options).all()
            self.of |= dict.fromkeys(ids, tenant)
            published += ids
        return published

    def _sent(self, count: int, task: str, args: Sequence[Any], **options: Any) -> list[str]:
        # RabbitMQ, killed, loses what it has not confirmed.
        with publisher(self._url, broker_transport_options={"confirm_publish": True}) as app:
            return [app.send_task(task, (n, *args), **options).id for n in range(count)]

    def started(self, records: RecordFile) -> list[str]:
        """Whose messages have started, in their order."""
        return [self.of[record.id] for record in sorted(records.read()) if record.id in self.of]
