"""Redis: a client for callers that cannot wait long, and commands about kombu's queues."""

from functools import cached_property
from typing import Any

from celery.exceptions import ImproperlyConfigured

__all__ = ["Commands", "client_at"]

_TIMEOUT = 0.5  # seconds; an event loop waits for the answer


def client_at(url: str, setting: str) -> Any:
    """Return a client that gives up soon, and does not try again by itself.

    Raises:
        celery.exceptions.ImproperlyConfigured: none can be made for the URL.
    """
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        return Redis.from_url(
            url,
            socket_timeout=_TIMEOUT,
            socket_connect_timeout=_TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
    except (ImportError, ValueError) as exc:
        raise ImproperlyConfigured(
            f"{setting}: no client of Redis can be made for it: {exc}"
        ) from exc


class Commands:
    """Sends commands beside a kombu channel, about its keys as they are in Redis.

    Not on the channel's own client, whose one connection may be waiting for a ``BRPOP``: it would
    take that answer for its own.

    Arguments:
        channel: of kombu's Redis transport.
    """

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    @cached_property
    def _client(self) -> Any:
        return self._channel._create_client()

    def key(self, name: str) -> str:
        """Return a key as it is in Redis."""
        return f"{self._channel.global_keyprefix}{name}"

    def lists(self, queue: str) -> list[str]:
        """Return the keys of a queue's lists, the most urgent first."""
        channel = self._channel
        return [self.key(channel._q_for_pri(queue, step)) for step in channel.priority_steps]

    def list_of(self, queue: str, payload: Any) -> str:
        """Return the key of the list in which a message of a queue belongs."""
        priority = self._channel._get_message_priority(payload, reverse=False)
        return self.key(self._channel._q_for_pri(queue, priority))

    @property
    def unacked(self) -> list[str]:
        """The keys of what is unacknowledged: by tag, and its index by time."""
        return [self.key(self._channel.unacked_key), self.key(self._channel.unacked_index_key)]

    def __call__(self, *args: Any) -> Any:
        """Send a command, with whole keys."""
        from redis import Redis

        # Kombu's client adds its key prefix to some commands' keys; ours have it already.
        return Redis.execute_command(self._client, *args)  # type: ignore[no-untyped-call]
