"""Where a worker's messages come from: one source per connection, which makes the feeds."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from celery_fair.worker.queues.feed import Feed


class Source(ABC):
    """One broker connection as the dispatcher's supplier; it makes the feeds."""

    asks = True
    """Whether messages are asked for between two choices; what was chosen starts before that."""

    _before_asking: Callable[[], object] = staticmethod(lambda: None)

    def before_asking(self, start: Callable[[], object]) -> None:
        """Have this called before messages are asked for: what was chosen is not to wait for them.

        It is called by who `asks` only now and then, as of several queues at once.
        """
        self._before_asking = start

    @abstractmethod
    def feed(self, **options: Any) -> Feed:
        """Make a feed; `options` are those of `Feed`, less the channel."""

    @abstractmethod
    def pulled(self, **options: Any) -> Feed:
        """Make a feed that asks for each message; `options` are those of `Pulled` besides."""

    def keyed(self, **options: Any) -> Feed:
        """Make a feed that is shared by key; `options` are those of `KeyedFeed`, and who sorts.

        Only where the broker `shares_by_key`; a worker on others has been refused by then.
        """
        raise TypeError(f"{type(self).__name__} has no queues that are shared by key")

    def look(self, now: float) -> None:
        """A message is about to be chosen: take in what has come meanwhile, if nobody pushes it."""

    def rest(self, now: float) -> None:
        """Every slot is taken: what is to be known for the next choice can be asked for now."""

    def seek(self) -> None:
        """Slots are free and nothing can be started: see to it that something will come."""

    def flush(self, more: bool = False) -> None:
        """Send what was kept to be sent together; see `AckWriter.flush`."""

    def last(self) -> None:
        """The dispatcher runs no more: keep nothing from now on."""

    def acknowledge(self, message: Any) -> None:
        """Acknowledge a message whose task may start only if it is still held here.

        Raises:
            Exception: whatever the transport does, or `NotHeldError`; it must not start.
        """
        message.ack()

    def confirm(self, message: Any) -> None:
        """Wait until the broker has seen the message's acknowledgement."""

    def close(self) -> None:
        """Stop; what is unacknowledged goes back."""
