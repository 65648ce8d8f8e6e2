"""Publishers with ``fair_keys``: their messages need not be sorted by workers."""

import logging
from collections.abc import Mapping
from typing import Any

from kombu.utils.json import dumps

from celery_fair.brokers.broker import broker_of
from celery_fair.brokers.keyed.scripts import KeyedScripts
from celery_fair.brokers.redis import Commands
from celery_fair.core.keys.fair_key import read_key
from celery_fair.headers import FAIR_KEY
from celery_fair.settings import KeyedQueue

logger = logging.getLogger(__name__)


def sort_at_once(producer: Any, queues: Mapping[str, KeyedQueue]) -> None:
    """Let what a producer publishes from now on go into its key's list at once, where it can.

    It must be connected; Celery connects with the first message, and tries as often as it is to.

    Arguments:
        queues: those of ``fair_keys``, by name.
    """
    connection = producer.connection
    if queues and connection.connected and broker_of(connection).keeps_tags:
        channel = producer.channel
        if not isinstance(channel._put, _Put):
            channel._put = _Put(channel, queues)


class _Put:
    """Takes the place of a channel's method that puts a message into a queue's list."""

    def __init__(self, channel: Any, queues: Mapping[str, KeyedQueue]) -> None:
        self._channel = channel
        self._plainly = channel._put
        send = Commands(channel)
        self._lists = {name: KeyedScripts(channel, send, queues[name]) for name in queues}

    def __call__(self, queue: str, message: Any, **options: Any) -> None:
        from redis.exceptions import ResponseError

        lists = self._lists.get(queue)
        expires = queue in getattr(self._channel, "_expires", ())
        if lists is None or expires or options.get("_publish_batch") is not None:
            self._plainly(queue, message, **options)  # workers sort it
            return
        tenant, part = read_key((message.get("headers") or {}).get(FAIR_KEY))
        priority = self._channel._get_message_priority(message, reverse=False)
        step = self._channel._q_for_pri("", priority)
        try:
            lists.put(tenant, part, step, dumps(message))
        except ResponseError as exc:  # a user that may publish, and not this: workers sort it
            logger.debug("A message to %s is not sorted at once: %s", queue, exc)
            self._plainly(queue, message, **options)
