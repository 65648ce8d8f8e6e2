"""A place on a broker that nobody else uses: checked before, cleaned after.

On RabbitMQ the demo's queues begin with a prefix of their own; they are deleted at the end, and
their exchange goes with the last of them. On Redis *every* key, kombu's bookkeeping too, begins
with the prefix. Nothing without the prefix is read, changed or deleted.
"""

import os
from functools import partial
from typing import Any

import click
from kombu import Connection

from celery_fair.cli.demo.scenario import QUANTA
from celery_fair.operate.broker import connection_to, trouble_with
from celery_fair.operate.errors import OperateError
from celery_fair.settings.values import ENCODED, harmless

_SCHEMES = ("memory", "amqp", "amqps", "pyamqp", "redis", "rediss")
_PATIENCE = 5  # seconds


class DemoError(click.ClickException):
    """The demo came to no verdict. The message says what was attempted and what to do."""

    exit_code = 2


class Broker:
    """One broker, as the demo uses it.

    Arguments:
        url: as for Celery's ``broker_url``; memory, RabbitMQ or Redis.

    Attributes:
        in_memory: whether it lives and dies with the worker's process.
        on_redis: whether queues are Redis's lists.
        prefix: begins every name there.

    Raises:
        DemoError: it cannot be used.
    """

    def __init__(self, url: str) -> None:
        scheme, mark, rest = url.partition("://")
        scheme = scheme.lower()
        if scheme not in _SCHEMES or not mark:
            raise DemoError(
                f"--broker {harmless(url)} is no URL of a broker that the demo knows; use"
                " memory://, amqp://user:password@host:5672/vhost or redis://host:6379/0"
            )
        if ";" in rest:  # begins another broker's URL, within a password as well
            raise DemoError(f"--broker cannot be read: {ENCODED}")
        self.url = f"{scheme}://{rest}"
        self.in_memory = scheme == "memory"
        self.on_redis = scheme.startswith("redis")
        self.prefix = f"fair-demo-{os.urandom(4).hex()}."
        opened = partial(Connection, self.url, connect_timeout=_PATIENCE)
        try:
            self._connection = connection_to(opened, "--broker")
        except OperateError as exc:
            raise DemoError(str(exc)) from None

    def __str__(self) -> str:
        """Return the URL without its password."""
        return "memory://" if self.in_memory else str(self._connection.as_uri())

    def check(self) -> None:
        """Raise `DemoError` unless the broker answers."""
        with self._connection.clone() as connection:
            trouble = trouble_with(connection, "--broker")
        if trouble is not None:
            raise DemoError(trouble)

    def clean(self) -> None:
        """Delete what the demo made: its queues, or all its keys."""
        with self._connection.clone() as connection:
            channel: Any = connection.default_channel
            if self.on_redis:
                for key in channel.client.scan_iter(match=f"{self.prefix}*", count=1000):
                    channel.client.delete(key)
            else:
                for queue in QUANTA:
                    channel.queue_delete(self.prefix + queue)
