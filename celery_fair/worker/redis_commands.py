"""Redis commands about kombu's queues, as its channel names their keys."""

from typing import Any

__all__ = ["Commands"]


class Commands:
    """Sends commands on a kombu channel's client.

    Arguments:
        channel: of kombu's Redis transport.
    """

    def __init__(self, channel: Any) -> None:
        self._channel = channel

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
        return Redis.execute_command(self._channel.client, *args)  # type: ignore[no-untyped-call]
