"""The dead-letter queue of an app, by the way that suits its broker."""

from typing import Any

from celery_fair.letters.amqp_queue import AmqpLetters
from celery_fair.letters.letter_queue import LetterQueue
from celery_fair.letters.virtual_queue import VirtualLetters
from celery_fair.settings import Settings

__all__ = ["opened"]


def opened(app: Any, connection: Any) -> LetterQueue:
    """Return the queue of an app's dead letters.

    Arguments:
        connection: to the app's broker; connected, and closed by the caller.

    Raises:
        celery.exceptions.ImproperlyConfigured: as `Settings.of`.
    """
    name = Settings.of(app).dead_letters
    driver = connection.transport.driver_type
    if driver == "amqp":
        return AmqpLetters(connection, name)
    exchanges = {queue.exchange.name: queue.exchange for queue in app.amqp.queues.values()}
    if driver == "redis":
        from celery_fair.letters.redis_queue import RedisLetters

        return RedisLetters(connection, name, exchanges)
    return VirtualLetters(connection, name, exchanges)
