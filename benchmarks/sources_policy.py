"""The app of a worker that schedules as the sources do: for comparison only.

Their policy: the same window for every queue, and a queue that is found empty loses its credit and
its turn, whether or not its refill is on the way.
"""

from celery_fair.worker.queues.amqp import AmqpFeed
from tests.apps.shares import app

__all__ = ["app"]

AmqpFeed.owed = property(lambda self: False)  # type: ignore[assignment, method-assign]
