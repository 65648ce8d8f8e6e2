"""What a replay is made from, and what it makes."""

from typing import NamedTuple

__all__ = ["Message", "Start"]


class Message(NamedTuple):
    """One of the trace; the trace is in the order of `arrives`.

    Attributes:
        published: seconds since 1970, or any other time.
        runtime: seconds of work.
        key: whose it is, as its publisher wrote it.
        handover: seconds that it takes from a slot's becoming free to the start of the work, if the
            message waits for the slot; else from its arrival.
        transit: seconds from the publication to the arrival at the worker.
    """

    published: float
    queue: str
    task: str
    cost_key: str | None
    runtime: float
    key: str | None = None
    handover: float = 0.0
    transit: float = 0.0

    @property
    def arrives(self) -> float:
        """When the worker has it."""
        return self.published + self.transit


class Start(NamedTuple):
    """One of the replay."""

    message: Message
    at: float
