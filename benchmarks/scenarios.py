"""Who waits how long: tenants that share a queue, in scenarios that job queues are compared by.

    python -m benchmarks.scenarios [--json] [--seed N] [SCENARIO ...]

Simulated: when each message comes and how long its task takes is drawn once, then every order
serves the same ones. Where a slot is free, an order says whose message is next:

fifo      the one that came first, as in every queue
ring      tenants in turns of one message (deficit round robin), newcomers last
tags      the tenant with the least tag, then its part, as a fair worker does (`core/tags.py`)
seconds   the same, and what a task took is charged when it has ended: fair_cost = "runtime"

By scenario, milliseconds that the messages of its light tenants waited, mean and longest, and until
the last of all messages had ended:

skew       one tenant publishes 800 messages at once, seven others 25 each behind it
balanced   eight tenants publish 100 each at once: nobody is light, all are shown
trickle    one tenant's 1,000 messages, and another that publishes one every 50 ms
sybil      one tenant publishes over 30 parts, another, alone, a tenth as much
idle       ten tenants with a backlog, and one that comes back after a second with 20 messages
weighted   two tenants with as much to do; the lighter one weighs three times as much
burst      four tenants that publish 100 at once, one after the other, every 200 ms
holds      tasks of 500 ms of one tenant, of 20 ms of another
reversed   thirty tenants, each with a tenth less than the one before, the largest first
"""

import json
import random
from collections import deque
from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, Protocol

from benchmarks.turns import parser_of
from celery_fair.core.keys.tags import Served, TenantTags

SLOTS = 8
TASK = 20.0
"""Milliseconds, about, of a usual task."""


class Message(NamedTuple):
    """One, and when it comes, in milliseconds."""

    at: float
    tenant: str
    part: str = ""
    takes: float = TASK


class Scenario(NamedTuple):
    """What is published, whose wait counts, and what tenants weigh."""

    messages: list[Message]
    light: frozenset[str]
    weights: Mapping[str, float] = {}


def _some(count: int, tenant: str, at: float = 0.0, part: str = "", takes: float = TASK) -> Any:
    """So many messages, published one right after the other."""
    return [
        Message(at + number / 1000, tenant, part, takes * random.uniform(0.5, 1.5))
        for number in range(count)
    ]


def skew() -> Scenario:
    others = [f"light {number}" for number in range(7)]
    found = _some(800, "heavy")
    for name in others:
        found += _some(25, name, at=5)
    return Scenario(found, frozenset(others))


def balanced() -> Scenario:
    names = [f"tenant {number}" for number in range(8)]
    return Scenario([m for name in names for m in _some(100, name)], frozenset(names))


def trickle() -> Scenario:
    found = _some(1000, "heavy")
    for number in range(40):
        found += _some(1, "light", at=50.0 * (number + 1))
    return Scenario(found, frozenset({"light"}))


def sybil() -> Scenario:
    found = [m for part in range(30) for m in _some(30, "heavy", part=f"part {part}")]
    return Scenario(found + _some(90, "light", at=5), frozenset({"light"}))


def idle() -> Scenario:
    found = [m for number in range(10) for m in _some(100, f"heavy {number}")]
    return Scenario(found + _some(20, "light", at=1000), frozenset({"light"}))


def weighted() -> Scenario:
    found = _some(300, "heavy") + _some(300, "light")
    return Scenario(found, frozenset({"light"}), {"light": 3.0})


def burst() -> Scenario:
    names = [f"tenant {number}" for number in range(4)]
    found = [m for place, name in enumerate(names) for m in _some(100, name, at=200.0 * place)]
    return Scenario(found, frozenset(names))


def holds() -> Scenario:
    found = _some(150, "heavy", takes=500) + _some(150, "light", at=5)
    return Scenario(found, frozenset({"light"}))


def reversed_() -> Scenario:
    found, sizes = [], [round(200 * 0.9**number) for number in range(30)]
    for number, size in enumerate(sizes):
        found += _some(size, f"tenant {number}", at=float(number))
    return Scenario(found, frozenset(f"tenant {number}" for number in range(15, 30)))


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    each.__name__.strip("_"): each
    for each in (skew, balanced, trickle, sybil, idle, weighted, burst, holds, reversed_)
}


class Order(Protocol):
    """Says which message is next."""

    def arrive(self, message: Message) -> None: ...

    def take(self) -> Message | None: ...

    def ended(self, message: Message) -> None: ...


class Fifo:
    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()

    def arrive(self, message: Message) -> None:
        self._waiting.append(message)

    def take(self) -> Message | None:
        return self._waiting.popleft() if self._waiting else None

    def ended(self, message: Message) -> None:
        """It is all one."""


class Ring:
    def __init__(self) -> None:
        self._turns: dict[tuple[str, str], deque[Message]] = {}

    def arrive(self, message: Message) -> None:
        self._turns.setdefault((message.tenant, message.part), deque()).append(message)

    def take(self) -> Message | None:
        if not self._turns:
            return None
        key, waiting = next(iter(self._turns.items()))
        del self._turns[key]
        message = waiting.popleft()
        if waiting:
            self._turns[key] = waiting
        return message

    def ended(self, message: Message) -> None:
        """Turns are of messages."""


class ByTags:
    """As a worker chooses; `settles`: by what a tenant's tasks took, the mean being reckoned."""

    def __init__(self, weights: Mapping[str, float], settles: bool) -> None:
        self._tags = TenantTags(lambda tenant: weights.get(tenant, 1.0))
        self._settles = settles
        self._waiting: dict[tuple[str, str], deque[Message]] = {}
        self._served: dict[Message, tuple[Served, float]] = {}
        self._mean: float | None = None

    def arrive(self, message: Message) -> None:
        key = message.tenant, message.part
        self._waiting.setdefault(key, deque()).append(message)
        self._tags.arrive(*key)

    def take(self) -> Message | None:
        key = self._tags.first()
        if key is None:
            return None
        waiting = self._waiting[key]
        message = waiting.popleft()
        charge = (self._mean or 1.0) if self._settles else 1.0
        self._served[message] = self._tags.serve(*key, charge, bool(waiting)), charge
        return message

    def ended(self, message: Message) -> None:
        served, charge = self._served.pop(message)
        if self._settles:
            self._mean = (
                message.takes if self._mean is None else 0.9 * self._mean + 0.1 * message.takes
            )
            self._tags.settle(served, message.takes - charge)


ORDERS: dict[str, Callable[[Mapping[str, float]], Order]] = {
    "fifo": lambda weights: Fifo(),
    "ring": lambda weights: Ring(),
    "tags": lambda weights: ByTags(weights, False),
    "seconds": lambda weights: ByTags(weights, True),
}


def serve(scenario: Scenario, order: Order) -> tuple[list[float], float]:
    """Return how long the light tenants' messages waited, and when the last of all had ended."""
    events: list[tuple[float, int, int, Message]] = [
        (message.at, 0, number, message) for number, message in enumerate(scenario.messages)
    ]
    heapify(events)
    free, now, waits, number = SLOTS, 0.0, [], len(events)
    while events:
        now, ends, _, message = heappop(events)
        if ends:
            free += 1
            order.ended(message)
        else:
            order.arrive(message)
        while free and (chosen := order.take()) is not None:
            free -= 1
            number += 1
            if chosen.tenant in scenario.light:
                waits.append(now - chosen.at)
            heappush(events, (now + chosen.takes, 1, number, chosen))
    return waits, now


def measure(name: str, seed: int) -> dict[str, Any]:
    """One scenario by all orders; alike whichever others are measured."""
    random.seed(f"{seed} {name}")
    scenario = SCENARIOS[name]()
    row: dict[str, Any] = {"scenario": name}
    for order, make in ORDERS.items():
        waits, end = serve(scenario, make(scenario.weights))
        row |= {
            f"{order}, mean": sum(waits) / len(waits),
            f"{order}, longest": max(waits),
            f"{order}, all": end,
        }
    return row


def main() -> None:
    parser = parser_of("benchmarks.scenarios", __doc__)
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (default: 1)")
    parser.add_argument("what", nargs="*", metavar="SCENARIO", help=f"of {', '.join(SCENARIOS)}")
    args = parser.parse_args()
    if unknown := set(args.what) - set(SCENARIOS):
        parser.error(f"no scenario {', '.join(unknown)}; there are: {', '.join(SCENARIOS)}")
    rows = [measure(name, args.seed) for name in args.what or SCENARIOS]
    if args.json:
        print(json.dumps(rows))
        return
    print("mean / longest wait of light tenants' messages, and the end of all; milliseconds")
    print("scenario  " + "".join(order.rjust(22) for order in ORDERS))
    for row in rows:
        cells = (
            f"{row[f'{order}, mean']:.0f} / {row[f'{order}, longest']:.0f}"
            f" {row[f'{order}, all']:7.0f}"
            for order in ORDERS
        )
        print(f"{row['scenario']:<10}" + "".join(cell.rjust(22) for cell in cells))


if __name__ == "__main__":
    main()
