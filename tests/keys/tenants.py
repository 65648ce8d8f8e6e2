"""Messages of tenants, and whose they were that started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.brokers import Space
from tests.integration import depths
from tests.publishing import publish
from tests.records import RecordFile

QUEUE = "jobs"
KEYED: dict[str, Any] = {"fair_keys": {QUEUE: {}}}


def left(space: Space) -> int:
    """Messages of the queue, and of its keys' lists, that are not gone for good."""
    return depths.left(space, QUEUE)


class Tenants:
    """Publishes, and knows whose message has which id."""

    def __init__(self, url: str) -> None:
        self._url = url
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
            headers = {"x-fair-key": tenant}
            ids = publish(self._url, {QUEUE: count}, task, args, headers=headers, **options).all()
            self.of |= dict.fromkeys(ids, tenant)
            published += ids
        return published

    def started(self, records: RecordFile) -> list[str]:
        """Whose messages have started, in their order."""
        return [self.of[record.id] for record in sorted(records.read()) if record.id in self.of]
