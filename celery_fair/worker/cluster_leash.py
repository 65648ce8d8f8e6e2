"""A leash that all workers share, through Redis.

One atomic script keeps the bucket, by the server's clock; a worker asks it once per message of the
queue, and after a refusal not before the time it was told. While Redis is away each worker keeps to
its share of the rate, by the number of workers that were last seen; together they then start no
more than the rate in the long run.
"""

import logging
from functools import cached_property
from importlib.resources import files
from typing import Any

from celery_fair.core.token_bucket import TokenBucket

__all__ = ["ClusterLeash"]

logger = logging.getLogger(__name__)

_SLACK = 0.05
_GONE_AFTER = 30
_TIMEOUT = 0.5  # the event loop waits for the answer
_RETRY = 1.0


class ClusterLeash:
    """The queue's bucket, as one worker sees it.

    Arguments:
        url: of the Redis.
        queue: the queue's name; workers that use the same name share a bucket.
        rate, burst: tokens per second, and at once.
        member: this worker's name.
    """

    def __init__(self, url: str, queue: str, rate: float, burst: float, member: str) -> None:
        self._url = url
        self._keys = [f"celery-fair:leash:{{{queue}}}", f"celery-fair:leash:{{{queue}}}:members"]
        self._queue = queue
        self._rate = rate
        self._burst = burst
        self._member = member
        self._members = 1
        self._own: TokenBucket | None = None  # in use while Redis is away
        self._ask_at = 0.0

    def take(self, now: float) -> bool:
        if now < self._ask_at:
            return self._own is not None and self._own.take(now)
        return self._ask(now, 1)

    def give_back(self, now: float) -> None:
        if self._own is not None:
            self._own.give_back()
        else:
            self._ask(now, -1)

    def when(self, now: float) -> float:
        return self._own.when(now) if self._own is not None else max(now, self._ask_at)

    def _ask(self, now: float, wanted: int) -> bool:
        from redis.exceptions import RedisError

        try:
            granted, wait, self._members = self._script(
                keys=self._keys,
                args=[self._rate, self._burst, wanted, _SLACK, self._member, _GONE_AFTER],
            )
        except (RedisError, OSError) as exc:
            return self._alone(now, exc) and wanted > 0 and self.take(now)
        if self._own is not None:
            self._own = None
            logger.warning("The shared leash of queue %s is back", self._queue)
        self._ask_at = now + float(wait)
        return bool(granted)

    def _alone(self, now: float, exc: Exception) -> bool:
        self._ask_at = now + _RETRY
        if self._own is None:
            rate, burst = self._rate / self._members, max(1.0, self._burst / self._members)
            self._own = TokenBucket(rate, burst, now, slack=_SLACK)
            self._own.take(now, burst)  # the shared bucket may have been empty
            logger.warning(
                "The shared leash of queue %s cannot be reached (%s); until it is back, this worker"
                " keeps to its share of one in %s: %.3g/s",
                self._queue,
                exc,
                self._members,
                rate,
            )
        return True

    @cached_property
    def _script(self) -> Any:
        from redis import Redis

        client = Redis.from_url(
            self._url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT, retry=None
        )
        source = files("celery_fair.worker").joinpath("take.lua").read_text()
        return client.register_script(source)
