"""A TCP proxy between worker and broker, which misbehaves on demand.

It understands enough of what it forwards to act at a given moment: just before
the third acknowledgement, say, or right after the first message was delivered.

    with Proxy(space) as proxy:
        trap = proxy.on("ack", nth=3, when="before")
        ...a worker at proxy.url, and work...
        trap.wait()

Directions are named as seen from the worker: "up" to the broker, "down" from it.
A cut ends every connection. Where nothing else is said it is a reset, as from a
machine that has lost its power; but whoever has just been forwarded something
gets an orderly end, since a reset may overtake what came before it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from tests.brokers.door import Door
from tests.brokers.space import Space
from tests.faults.wire import Splitter, Unit, closing, splitters
from tests.ports import free_port

Direction = Literal["up", "down"]
T = TypeVar("T")

BLOCK = 65_536
PATIENCE = 10
"""Seconds for the proxy's own thread to do what it is told."""
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time


@dataclass(eq=False)
class Trap:
    """What is to happen at the nth such method, or command, once.

    Without a method it is the nth frame, or command, whatever it is. "close" has RabbitMQ close the
    channel of what goes up: it is sent something there that it does not forgive. "mute" keeps
    what is answered to it, and to what follows on its connection alone, until `release`. "keep"
    keeps it, and what follows it there. "halve" lets half of it by, and keeps the rest, and what
    follows that way.
    """

    method: str
    nth: int = 1
    when: Literal["before", "after"] = "before"
    action: Literal["cut", "close", "halve", "hold", "keep", "mute", "note"] = "cut"
    reset: bool = True
    containing: bytes = b""
    fired: Event = field(default_factory=Event)

    def springs(self, unit: Unit, when: str) -> bool:
        """Count, and say whether it is this one."""
        name = unit.begins if when == "before" else unit.completes
        if when != self.when or self.method not in {name, ""} or self.containing not in unit.about:
            return False
        self.nth -= 1
        return self.nth == 0

    def wait(self, timeout: float = 30) -> None:
        if not self.fired.wait(timeout):
            raise TimeoutError(f"waited {timeout:g} s: {self.nth} more of {self.method} to come")


class _Link:
    """One client's connection, and the one to the broker that was made for it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.sockets = {"down": client, "up": server}
        """By the direction in which they are written to."""
        self.ended = asyncio.Event()
        self.flows = {"up": asyncio.Event(), "down": asyncio.Event()}
        for flow in self.flows.values():
            flow.set()
        self.reset: set[str] = set()

    def end(self, reset: bool, politely: str | None = None) -> None:
        self.reset = {side for side in self.sockets if reset and side != politely}
        self.ended.set()

    def close(self) -> None:
        for side, end in self.sockets.items():
            if side in self.reset:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            end.close()


class Proxy:
    """Listens on a port of its own until it is closed."""

    def __init__(self, behind: Space | Door) -> None:
        self._behind = behind
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._links: set[_Link] = set()
        self._serving = set[asyncio.Task[None]]()
        self._traps: list[Trap] = []
        self._rate: float | None = None
        self._delay = 0.0
        self._halved = False
        self._refuses = False
        self._flows = {"up": asyncio.Event(), "down": asyncio.Event()}
        for flows in self._flows.values():
            flows.set()
        self._thread = Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._loop.call_soon_threadsafe(self._loop.add_reader, self._listener, self._accept)

    @property
    def url(self) -> str:
        """That of what is behind, by way of this proxy."""
        return self._behind.url.replace(f":{self._behind.port}/", f":{self.port}/")

    # Orders ---------------------------------------------------------------

    def on(self, method: str, **options: Any) -> Trap:
        """Set a trap; see `Trap` for the options."""
        trap = Trap(method, **options)
        self._do(self._set(trap))
        return trap

    def cut(self, reset: bool = True) -> None:
        """End every connection now, and forget what is held back."""
        self._do(self._cut(reset))

    def hold(self, *directions: Direction) -> None:
        """A black hole: keep what goes that way, on later connections too."""
        self._do(self._hold(directions or ("up", "down")))

    def release(self, *directions: Direction) -> None:
        """Hold nothing that goes that way; without one, nothing, be fast, and forget all traps."""
        self._do(self._release(directions))

    def refuse(self) -> None:
        """Answer nobody, as a broker that is down, until `release`."""
        self._do(self._refuse())

    def slow(self, bytes_per_second: float) -> None:
        """Each direction of a connection carries no more than that, until `release`."""
        self._do(self._slow(bytes_per_second))

    def delay(self, seconds: float) -> None:
        """Whatever comes goes on so much later, until `release`."""
        self._do(self._be_late(seconds))

    def close(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _do(self, order: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(order, self._loop).result(PATIENCE)

    # In the proxy's own thread --------------------------------------------

    async def _set(self, trap: Trap) -> None:
        self._traps.append(trap)

    async def _cut(self, reset: bool) -> None:
        links = set(self._links)
        for link in links:
            link.end(reset)
        while links & self._links:
            await asyncio.sleep(0)

    async def _hold(self, directions: tuple[str, ...]) -> None:
        for direction in directions:
            self._flows[direction].clear()

    async def _release(self, directions: tuple[str, ...]) -> None:
        if not directions:
            self._rate, self._delay, self._refuses = None, 0.0, False
            self._traps.clear()
            for flow in [flow for link in self._links for flow in link.flows.values()]:
                flow.set()
        for direction in directions or self._flows:
            self._flows[direction].set()

    async def _refuse(self) -> None:
        self._refuses = True

    async def _slow(self, rate: float) -> None:
        self._rate = rate

    async def _be_late(self, seconds: float) -> None:
        self._delay = seconds

    async def _end(self) -> None:
        """End all connections, those that are just being made, too."""
        self._loop.remove_reader(self._listener)
        while self._serving:
            for link in self._links:
                link.end(reset=True)
            await asyncio.sleep(0)

    def _accept(self) -> None:
        with suppress(BlockingIOError, ConnectionAbortedError):  # the client is gone by now
            client, _ = self._listener.accept()
            task = self._loop.create_task(self._serve(client))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve(self, client: socket.socket) -> None:
        server = socket.socket()
        link = _Link(client, server)
        for end in (client, server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._links.add(link)
        try:
            if self._refuses:
                raise ConnectionRefusedError
            await self._loop.sock_connect(server, ("127.0.0.1", self._behind.port))
            await self._forward(link)
        except OSError:  # the broker is down: so is the way to it
            link.end(reset=True)
        finally:
            link.close()
            self._links.discard(link)

    async def _forward(self, link: _Link) -> None:
        up, down = splitters(self._behind.kind)
        tasks = [
            self._loop.create_task(self._pump(link, "up", up)),
            self._loop.create_task(self._pump(link, "down", down)),
            self._loop.create_task(link.ended.wait()),
        ]
        _, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.wait(tasks)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pump(self, link: _Link, direction: Direction, splitter: Splitter) -> None:
        source = link.sockets["down" if direction == "up" else "up"]
        target = link.sockets[direction]
        while data := await self._loop.sock_recv(source, BLOCK):
            if self._delay:
                await asyncio.sleep(self._delay)
            for unit in splitter.feed(data):
                sent = self._spring(link, direction, unit, "before") + unit.data
                if link.ended.is_set():
                    return
                if self._halved:
                    self._halved = False
                    await self._loop.sock_sendall(target, sent[: len(sent) // 2])
                    sent = sent[len(sent) // 2 :]
                await self._flows[direction].wait()
                await link.flows[direction].wait()
                await self._loop.sock_sendall(target, sent)
                if more := self._spring(link, direction, unit, "after"):
                    await self._loop.sock_sendall(target, more)
                if link.ended.is_set():
                    return
                if self._rate:
                    await asyncio.sleep(len(unit.data) / self._rate)

    def _spring(self, link: _Link, direction: Direction, unit: Unit, when: str) -> bytes:
        """Spring the traps for this unit; returns what is to be sent beside it."""
        beside = b""
        for trap in [trap for trap in self._traps if trap.springs(unit, when)]:
            self._traps.remove(trap)
            if trap.action in {"hold", "halve"}:
                self._flows[direction].clear()
                self._halved = trap.action == "halve"
            elif trap.action == "cut":
                for other in self._links:
                    other.end(trap.reset)
                link.end(trap.reset, politely=direction if when == "after" else None)
            elif trap.action in {"keep", "mute"}:
                link.flows[direction if trap.action == "keep" else "down"].clear()
            elif trap.action == "close":
                beside += closing(unit)
            trap.fired.set()
        return beside
