"""A test's own place on a shared broker: a virtual host, or a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Depth(NamedTuple):
    """Messages of one queue: waiting, and delivered but not acknowledged."""

    ready: int
    unacked: int


class Server(Protocol):
    """What both brokers can do."""

    kind: str
    port: int

    @property
    def pid(self) -> int: ...
    @property
    def running(self) -> bool: ...
    def log(self) -> str: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def restart(self) -> None: ...
    def end(self) -> None: ...
    def url(self, place: str) -> str: ...
    def wait_ready(self, timeout: float = 60) -> None: ...
    def queue_depths(self, place: str) -> Mapping[str, Depth]: ...
    def space(self) -> Space: ...


@dataclass(frozen=True)
class Space:
    server: Server
    place: str

    @property
    def kind(self) -> str:
        return self.server.kind

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def url(self) -> str:
        return self.server.url(self.place)

    def depths(self) -> Mapping[str, Depth]:
        return self.server.queue_depths(self.place)

    def ready(self) -> dict[str, int]:
        """Messages waiting, by queue; empty queues are left out."""
        return {name: d.ready for name, d in self.depths().items() if d.ready}
