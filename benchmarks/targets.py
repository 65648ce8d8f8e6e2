"""Are targets met that some fixed quanta would meet, and what do they leave to the others?

    python -m benchmarks.targets [--data FOLDER] [--jobs N] [--json] [WORKLOAD ...]

Twelve workloads on a simulated clock, with the worker's own scheduler: an hour of requests to two
services of language models (Azure Public Dataset, in `../shared/data` beside the checkout unless
another folder is named), and ten that are drawn at random. Each has some queues with targets and
others, mostly with a backlog. Of each, all combinations of fixed quanta are tried, from 1 to 512
for each queue with a target; and targets of several ease, from near what a class of its own would
give to near what equal quanta do.

A minute is *met* if of the messages published in it as many started in time as the target asks for;
the first two minutes do not count. A case is *feasible* if some fixed quanta meet every target in
95 % of its minutes. Then the targets are to be met in 95 % of all feasible cases' minutes, and the
queues without one are to have, by the last publication, 90 % of what the best of these quanta
leave them. *Equal* is what quanta of 1 each would have met. *Else* are the minutes of cases that no
fixed quanta meet: what targets met of them, and what the best quanta did.

    python -m benchmarks.targets --fleet [--json]

A fleet of workers on the workload *day*, without a backlog, whose slots are set once a minute to
what `celery_fair_slots_needed` says, 32 at the most: how many there were, and how many would have
been needed all the time.

    python -m benchmarks.targets --live redis [--minutes N] [--workers N] [--json] [WORKLOAD ...]

The same workloads on real workers and on one broker, all at the same time, prefork and threads:
of each the first minutes (of *longer* those in which tasks become longer), with the targets of
medium ease, or the easier ones if no fixed quanta meet those in replays. Tasks sleep. No two slots
of a real worker keep step, so there are six replays, and in all but the first tasks take up to a
twentieth more or less, at random; what is feasible is feasible in all of them together. *Left* is
what queues without a target had, of what the best fixed quanta leave them in the first.
"""

import argparse
import csv
import json
import math
import random
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, pairwise, product, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep, time
from typing import Any, NamedTuple

from benchmarks.turns import serving
from celery_fair.core.targets import Target, slots_needed
from celery_fair.headers import PUBLISHED
from celery_fair.pipeline.replay.line import Message, Start
from celery_fair.pipeline.replay.machine import Machine
from celery_fair.pipeline.replay.scenario import Plan, Scenario
from tests.brokers import RabbitMQ, RedisServer
from tests.publishing import publish
from tests.records import Records
from tests.workers import WorkerProcess, starting_workers

DATA = Path(__file__).parents[2] / "shared" / "data"
QUANTA = (1.0, 8.0, 64.0, 512.0)
EASE = (0.25, 0.5, 0.75)
"""Where targets lie between what a class of its own and what equal quanta give, on a log scale."""
PART = 0.95
SETTLING, MINUTE, HOUR = 120.0, 60.0, 3600.0
MET, LEFT = 0.95, 0.9
READ, WRITTEN, BUSY = 0.0002, 0.03, 0.9
DRIFTS, DRIFT = 5, 0.05
BEGIN = {"longer": HOUR / 2 - 300.0}
SERVERS: dict[str, Callable[[], RabbitMQ | RedisServer]] = {
    "rabbitmq": RabbitMQ,
    "redis": RedisServer,
}
_WAITS, _WAITED = 10.0, 30.0
"""What is published within ten seconds waits at the start; then the last may take half a minute."""


class Workload(NamedTuple):
    """What is published, to how many slots, and which queues have targets."""

    messages: list[Message]
    slots: int
    aimed: tuple[str, ...]


# What is published --------------------------------------------------------------


def _poisson(
    draw: random.Random,
    queue: str,
    rate: Callable[[float], float],
    takes: Callable[[float], float],
    most: float,
    until: float = HOUR,
) -> Iterator[Message]:
    """Messages at random, at a rate that changes; `most` is the highest it gets."""
    at = 0.0
    while (at := at + draw.expovariate(most)) < until:
        if draw.random() * most < rate(at):
            yield Message(at, queue, "t", None, draw.expovariate(1 / takes(at)))


def _batch(queue: str, at: float, count: int, takes: float) -> Iterator[Message]:
    return (Message(at + n * 1e-4, queue, "t", None, takes) for n in range(count))


def _bulk(count: int, takes: float, at: float = 0.0) -> Iterator[Message]:
    return _batch("bulk", at, count, takes)


def _steady(value: float) -> Callable[[float], float]:
    return lambda at: value


def day(draw: random.Random) -> Workload:
    """Four slots; mail between nothing and three quarters of them, in waves; a backlog."""

    def rate(at: float) -> float:
        return 15 * (1 + math.sin(2 * math.pi * at / 1200))

    mail = _poisson(draw, "mail", rate, _steady(0.1), 30)
    return Workload([*mail, *_bulk(60_000, 0.25)], 4, ("mail",))


def bursts(draw: random.Random) -> Workload:
    """Ten times as much mail for ten seconds, every two minutes."""

    def rate(at: float) -> float:
        return 30.0 if at % 120 < 10 else 3.0

    mail = _poisson(draw, "mail", rate, _steady(0.1), 30)
    return Workload([*mail, *_bulk(60_000, 0.25)], 4, ("mail",))


def longer(draw: random.Random) -> Workload:
    """After half an hour mail takes five times as long."""

    def takes(at: float) -> float:
        return 0.05 if at < HOUR / 2 else 0.25

    mail = _poisson(draw, "mail", _steady(8.0), takes, 8)
    return Workload([*mail, *_bulk(60_000, 0.25)], 4, ("mail",))


def tenants(draw: random.Random) -> Workload:
    """Two tenants with targets; one of them floods for a while, now and then."""

    def flood(at: float) -> float:
        return 12.0 if at % 600 < 60 else 2.0

    one = _poisson(draw, "one", _steady(4.0), _steady(0.1), 4)
    two = _poisson(draw, "two", flood, _steady(0.2), 12)
    return Workload([*one, *two, *_bulk(60_000, 0.25)], 4, ("one", "two"))


def long_tasks(draw: random.Random) -> Workload:
    """A backlog of tasks of two seconds on eight slots."""
    mail = _poisson(draw, "mail", _steady(5.0), _steady(0.1), 5)
    return Workload([*mail, *_bulk(16_000, 2.0)], 8, ("mail",))


def three(draw: random.Random) -> Workload:
    """Clicks, mail and reports, each with another target."""
    click = _poisson(draw, "click", _steady(4.0), _steady(0.05), 4)
    mail = _poisson(draw, "mail", _steady(2.0), _steady(0.3), 2)
    reports = _poisson(draw, "reports", _steady(0.1), _steady(8.0), 0.1)
    return Workload([*click, *mail, *reports, *_bulk(40_000, 0.4)], 4, ("click", "mail", "reports"))


def batches(draw: random.Random) -> Workload:
    """Five hundred reports every ten minutes, beside mail."""
    mail = _poisson(draw, "mail", _steady(3.0), _steady(0.1), 3)
    reports = [m for at in range(30, 3600, 600) for m in _batch("reports", float(at), 500, 0.8)]
    return Workload([*mail, *reports, *_bulk(40_000, 0.4)], 4, ("mail", "reports"))


def rare(draw: random.Random) -> Workload:
    """A message a minute."""
    mail = _poisson(draw, "mail", _steady(1 / 60), _steady(0.5), 1 / 60)
    return Workload([*mail, *_bulk(60_000, 0.25)], 2, ("mail",))


def half_idle(draw: random.Random) -> Workload:
    """Two queues at random that keep seven tenths of four slots busy; no backlog."""
    mail = _poisson(draw, "mail", _steady(8.0), _steady(0.1), 8)
    bulk = _poisson(draw, "bulk", _steady(2.0), _steady(1.0), 2)
    return Workload([*mail, *bulk], 4, ("mail",))


def waves(draw: random.Random) -> Workload:
    """A backlog that comes anew every ten minutes and is worked off in eight."""
    mail = _poisson(draw, "mail", _steady(6.0), _steady(0.1), 6)
    bulk = [m for at in range(0, 3600, 600) for m in _bulk(8000, 0.2, float(at))]
    return Workload([*mail, *bulk], 4, ("mail",))


def _requests(folder: Path, service: str) -> list[Message]:
    found = []
    with (folder / f"AzureLLMInferenceTrace_{service}.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            read, written = int(row["ContextTokens"]), int(row["GeneratedTokens"])
            at = datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
            found.append(Message(at, service, "t", None, read * READ + written * WRITTEN))
    begin = found[0].published
    return [message._replace(published=message.published - begin) for message in found]


def _slots(messages: list[Message]) -> int:
    last = max(message.published for message in messages)
    return math.ceil(sum(message.runtime for message in messages) / last / BUSY)


def services(folder: Path) -> Workload:
    """Two services of language models; what is written as one types has a target."""
    both = [message for name in ("code", "conv") for message in _requests(folder, name)]
    return Workload(both, _slots(both), ("code",))


def lengths(folder: Path) -> Workload:
    """One of them; short requests have a target."""
    conv = _requests(folder, "conv")
    usual = sorted(message.runtime for message in conv)[len(conv) // 2]
    split = [m._replace(queue="long" if m.runtime > usual else "short") for m in conv]
    return Workload(split, _slots(split), ("short",))


DRAWN = (*(day, bursts, longer, tenants, long_tasks, three, batches, rare, half_idle, waves),)
TRACES = (services, lengths)
NAMES = tuple(each.__name__ for each in (*TRACES, *DRAWN))


def workload(name: str, folder: Path) -> Workload:
    for each in TRACES:
        if each.__name__ == name:
            made = each(folder)
            return made._replace(messages=sorted(made.messages))
    draw = next(each for each in DRAWN if each.__name__ == name)
    made = draw(random.Random(name))
    return made._replace(messages=sorted(made.messages))


# What comes of it -----------------------------------------------------------------


@dataclass
class Ran:
    """Starts by queue, and what those without a target had by the last publication."""

    waits: dict[str, dict[int, list[float]]]
    left: float

    def quantile(self, queue: str) -> float:
        waits = sorted(w for minute in self.waits[queue].values() for w in minute)
        return waits[math.ceil(PART * len(waits)) - 1]

    def met(self, targets: Mapping[str, float]) -> tuple[int, int]:
        """Return in how many minutes targets were met, and of how many, over all queues."""
        judged = [
            bisect_right(sorted(minute), seconds) >= PART * len(minute)
            for queue, seconds in targets.items()
            for minute in self.waits[queue].values()
        ]
        return sum(judged), len(judged)


def ran(load: Workload, scenario: Scenario) -> Ran:
    waits: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    end = load.messages[-1].published
    end = min(end, HOUR) if end > SETTLING else HOUR
    left = 0.0
    for start in _starts(load, scenario, end):
        message = start.message
        if message.queue not in load.aimed:
            left += message.runtime if start.at <= end else 0.0
        elif message.published >= SETTLING:
            minute = int(message.published // MINUTE)
            waits[message.queue][minute].append(start.at - message.published)
    return Ran(waits, left)


def _starts(load: Workload, scenario: Scenario, end: float) -> Iterator[Start]:
    """Replay until all that has a target has started."""
    missing = sum(message.queue in load.aimed for message in load.messages)
    for start in Machine(scenario).run(load.messages):
        missing -= start.message.queue in load.aimed
        yield start
        if not missing and start.at > end:
            return


class Counted(NamedTuple):
    """What came of a workload's feasible cases."""

    workload: str
    cases: int
    feasible: int
    minutes: int
    met: int
    equal: int
    worst: float
    """Met of the minutes of a case, at the least."""
    left: float
    """Of what the best quanta leave the others, at the least."""
    hard: int = 0
    """Minutes of the cases that no fixed quanta meet."""
    hard_met: int = 0
    hard_fixed: int = 0
    """What targets met of them, and what the best fixed quanta did."""


class Searched(NamedTuple):
    """What all fixed quanta came to, those of 1 first, and what a class of its own did."""

    base: Scenario
    fixed: list[Ran]
    classed: Ran

    def targets(self, ease: float) -> dict[str, float]:
        """Return targets in seconds, of all queues that have one."""
        return {
            queue: _between(self.classed, self.fixed[0], queue, ease)
            for queue in sorted(self.classed.waits)
        }

    def good(self, targets: Mapping[str, float]) -> list[Ran]:
        """Return the fixed quanta that meet targets."""
        return [each for each in self.fixed if _part(each.met(targets)) >= MET]


def _searched(load: Workload, drifts: int = 0) -> Searched:
    queues = {message.queue for message in load.messages}
    base = Scenario("base", load.slots, overhead=0.0, queues={q: Plan() for q in sorted(queues)})
    loads = [load, *(_drifting(load, seed) for seed in range(drifts))]

    def replayed(scenario: Scenario) -> Ran:
        return _pooled([ran(each, scenario) for each in loads])

    fixed = [replayed(each) for each in _fixed(base, load.aimed)]
    return Searched(base, fixed, replayed(_classed(base, load.aimed)))


def _drifting(load: Workload, seed: int) -> Workload:
    """Return it with tasks that take more or less, each by another part."""
    draw = random.Random(seed)
    messages = [
        m._replace(runtime=m.runtime * draw.uniform(1 - DRIFT, 1 + DRIFT)) for m in load.messages
    ]
    return load._replace(messages=messages)


def _pooled(replays: Sequence[Ran]) -> Ran:
    """Return all their minutes, and what the first left."""
    waits: dict[str, dict[int, list[float]]] = defaultdict(dict)
    for replay in replays:
        for queue, minutes in replay.waits.items():
            waits[queue] |= {len(waits[queue]) + n: m for n, m in enumerate(minutes.values())}
    return Ran(waits, replays[0].left)


def measure(name: str, folder: Path) -> Counted:
    load = workload(name, folder)
    searched = _searched(load)
    base, fixed, equal = searched.base, searched.fixed, searched.fixed[0]
    counted = Counted(name, 0, 0, 0, 0, 0, 1.0, math.inf)
    for ease in EASE:
        targets = searched.targets(ease)
        good = searched.good(targets)
        counted = counted._replace(cases=counted.cases + 1)
        found = ran(load, _aimed(base, targets))
        met, minutes = found.met(targets)
        if not good:
            counted = counted._replace(
                hard=counted.hard + minutes,
                hard_met=counted.hard_met + met,
                hard_fixed=counted.hard_fixed + max(each.met(targets)[0] for each in fixed),
            )
        else:
            most = max(each.left for each in good)
            counted = counted._replace(
                feasible=counted.feasible + 1,
                minutes=counted.minutes + minutes,
                met=counted.met + met,
                equal=counted.equal + equal.met(targets)[0],
                worst=min(counted.worst, met / minutes),
                left=min(counted.left, found.left / most if most else 1.0),
            )
    return counted


def _between(best: Ran, equal: Ran, queue: str, ease: float) -> float:
    least, worst = (max(0.05, each.quantile(queue)) for each in (best, equal))
    return float(least * 1.1 * max(1.0, worst / least) ** ease)


def _part(met: tuple[int, int]) -> float:
    return met[0] / max(1, met[1])


def _fixed(base: Scenario, aimed: Iterable[str]) -> Iterator[Scenario]:
    names = tuple(aimed)
    for quanta in product(QUANTA, repeat=len(names)):
        scenario = base
        for queue, quantum in zip(names, quanta, strict=True):
            scenario = scenario.with_plan(queue, quantum=quantum)
        yield scenario


def _classed(base: Scenario, aimed: Iterable[str]) -> Scenario:
    for queue in aimed:
        base = base.with_plan(queue, level=1)
    return base


def _aimed(base: Scenario, targets: Mapping[str, float]) -> Scenario:
    for queue, seconds in targets.items():
        base = base.with_plan(queue, target=Target(PART, seconds))
    return replace(base, name="aimed")


# A fleet that scales ----------------------------------------------------------------


class Scaled(NamedTuple):
    """What came of a fleet.

    Attributes:
        met, minutes: in how many minutes the target was met, and of how many.
        slots: on the average.
        most: the most that there were.
        fixed: the least number of slots that meets as much, if it does not change.
        changes: how often the direction changed, up or down.
    """

    met: int
    minutes: int
    slots: float
    most: int
    fixed: int
    changes: int


def fleet() -> Scaled:
    load = workload("day", DATA)
    load = load._replace(messages=[m for m in load.messages if m.queue == "mail"])
    targets = {"mail": 1.0}
    base = _aimed(Scenario("base", 1, overhead=0.0), targets)
    counts: list[int] = []
    waits: dict[int, list[float]] = defaultdict(list)
    machine, minute, mean = Machine(base), 0.0, 0.1
    [pool] = machine.pools
    for start in machine.run(load.messages):
        message = start.message
        mean += 0.05 * (message.runtime - mean)
        if message.published >= SETTLING:
            waits[int(message.published // MINUTE)].append(start.at - message.published)
        if start.at >= minute + MINUTE and pool.chooser.urgency is not None:
            minute = start.at
            [kept] = pool.chooser.urgency.kept(minute)
            counts.append(min(32, math.ceil(slots_needed(kept.load * mean))))
            pool.resize(counts[-1], minute)
    met, minutes = Ran({"mail": waits}, 0.0).met(targets)
    fixed = next(n for n in range(1, 33) if ran(load, base.with_slots(n)).met(targets)[0] >= met)
    turns = [b > a for a, b in pairwise(counts) if a != b]
    changes = sum(a != b for a, b in pairwise(turns))
    return Scaled(met, minutes, sum(counts) / len(counts), max(counts), fixed, changes)


# Live -------------------------------------------------------------------------------


class Case(NamedTuple):
    """A workload that is tried on real workers.

    Attributes:
        targets: of each queue, in seconds.
        feasible: whether some fixed quanta meet them, on a simulated clock, with tasks that drift.
        left: what the best of those quanta leave the others, in seconds of run time.
    """

    name: str
    load: Workload
    targets: dict[str, float]
    feasible: bool
    left: float


def _case(name: str, folder: Path, minutes: int) -> Case:
    """Return a workload's beginning, with targets of medium ease, or easier ones if need be."""
    load = _cut(workload(name, folder), BEGIN.get(name, 0.0), minutes * MINUTE)
    searched = _searched(load, DRIFTS)
    for ease in EASE[1:]:
        targets = searched.targets(ease)
        if good := searched.good(targets):
            break
    return Case(name, load, targets, bool(good), max(e.left for e in good or searched.fixed))


def _cut(load: Workload, begin: float, seconds: float) -> Workload:
    """Return what is published from `begin` on, and no more of a backlog than slots can do."""
    room, kept = 1.2 * load.slots * seconds, []
    for message in load.messages:
        at = message.published - begin
        if message.queue not in load.aimed:
            at = max(0.0, at)
            room -= message.runtime if at < _WAITS else 0.0
        if 0.0 <= at < seconds and (at >= _WAITS or room > 0.0):
            kept.append(message._replace(published=at))
    return load._replace(messages=sorted(kept))


class Live:
    """A case, and the workers that have its slots."""

    def __init__(self, case: Case, workers: Sequence[WorkerProcess]) -> None:
        self.case, self.workers = case, workers
        self.published: dict[str, tuple[Message, float]] = {}
        aimed = case.load.aimed
        backlog = [m for m in case.load.messages if m.published < _WAITS and m.queue not in aimed]
        self.rest = [m for m in case.load.messages if m.published >= _WAITS or m.queue in aimed]
        for (queue, takes), some in groupby(sorted(backlog, key=_kind), _kind):
            each = list(some)
            url = workers[0].broker_url
            ids = publish(url, {queue: len(each)}, "nap", [takes], persistent=False)
            self.published |= {task: (m, 0.0) for task, m in zip(ids.all(), each, strict=True)}

    def publish(self, begun: float) -> None:
        """Publish the rest as time goes by."""
        client = self.workers[0].client
        for message in self.rest:
            sleep(max(0.0, begun + message.published - time()))
            now = time()
            headers = {PUBLISHED: now}
            args = 0, message.runtime
            sent = client.send_task("nap", args, queue=message.queue, headers=headers)
            self.published[sent.id] = message, now

    def ran(self, begun: float) -> Ran:
        """Return what has been started; what has not, waits for ever."""
        started = {r.id: r.wall for r in self.workers[0].records.started.read()}
        waits: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        end = begun + self.case.load.messages[-1].published
        left = 0.0
        for task, (message, at) in self.published.items():
            start = started.get(task, math.inf)
            if message.queue not in self.case.targets:
                left += message.runtime if start <= end else 0.0
            elif message.published >= SETTLING:
                waits[message.queue][int(message.published // MINUTE)].append(start - at)
        return Ran(waits, left)


def _kind(message: Message) -> tuple[str, float]:
    return message.queue, message.runtime


def live(cases: Sequence[Case], broker: str, fleet: int) -> Iterator[dict[str, Any]]:
    """Try all cases at once, by prefork and by threads, with `fleet` workers each."""
    with ExitStack() as stack:
        server = stack.enter_context(serving(SERVERS[broker]()))
        tried: list[tuple[str, Live]] = []
        for case, pool in product(cases, ("prefork", "threads")):
            folder = Path(stack.enter_context(TemporaryDirectory()))
            start = stack.enter_context(starting_workers(folder))
            queues: dict[str, dict[str, str]] = {m.queue: {} for m in case.load.messages}
            for queue, seconds in case.targets.items():
                queues[queue] = {"target": f"{PART:.0%} < {seconds:.3f}s"}
            space, records = server.space(), Records(folder / "tasks")
            slots = [len(range(n, case.load.slots, fleet)) for n in range(fleet)]
            workers = [
                start(
                    space,
                    pool=pool,
                    concurrency=count,
                    conf={"fair_queues": queues},
                    records=records,
                    wait=False,
                )
                for count in slots
            ]
            tried.append((pool, Live(case, workers)))
        for _, each in tried:
            for worker in each.workers:
                worker.wait_ready(120)
        begun = time()
        with ThreadPoolExecutor(len(tried)) as threads:
            list(threads.map(lambda one: one[1].publish(begun), tried))
        sleep(_WAITED)
        for pool, each in tried:
            found = each.ran(begun)
            met, minutes = found.met(each.case.targets)
            yield {
                "workload": each.case.name,
                "broker": broker,
                "pool": pool,
                "workers": fleet,
                "targets": each.case.targets,
                "feasible": each.case.feasible,
                "met": met,
                "minutes": minutes,
                "left": found.left / each.case.left if each.case.left else 1.0,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(NAMES))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--fleet", action="store_true", help="a fleet that scales, alone")
    parser.add_argument("--live", choices=SERVERS, help="real workers on that broker, alone")
    parser.add_argument("--minutes", type=int, default=12, help="of that (default: 12)")
    parser.add_argument("--workers", type=int, default=1, help="of that (default: 1)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.fleet:
        scaled = fleet()._asdict()
        print(json.dumps(scaled) if arguments.json else scaled)
        return
    names = arguments.workloads or NAMES
    if unknown := set(names) - set(NAMES):
        sys.exit(f"no workload {unknown.pop()!r}; there are {', '.join(NAMES)}")
    if not arguments.data.is_dir():
        names = [name for name in names if name not in {each.__name__ for each in TRACES}]
        print(f"there are no traces in {arguments.data}: name their folder with --data")
    if arguments.live:
        with ProcessPoolExecutor(arguments.jobs) as pool:
            cases = list(pool.map(_case, names, repeat(arguments.data), repeat(arguments.minutes)))
        for row in live(cases, arguments.live, arguments.workers):
            print(json.dumps(row) if arguments.json else row, flush=True)
        return
    rows: list[Counted] = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for counted in pool.map(measure, names, [arguments.data] * len(names)):
            rows.append(counted)
            if not arguments.json:
                print(_line(counted), flush=True)
    minutes, met = sum(row.minutes for row in rows), sum(row.met for row in rows)
    part, left = met / max(1, minutes), min(row.left for row in rows)
    if arguments.json:
        found: list[dict[str, Any]] = [row._asdict() for row in rows]
        print(json.dumps({"rows": found, "met": part, "left": left}, indent=2))
    else:
        bounds = f"{MET:.0%} and {LEFT:.0%}"
        print(f"met in {part:.1%} of {minutes} minutes, left {left:.1%}; to be {bounds}")


def _line(row: Counted) -> str:
    met, equal = row.met / max(1, row.minutes), row.equal / max(1, row.minutes)
    return (
        f"{row.workload:12} cases {row.cases} feasible {row.feasible} minutes {row.minutes:4}"
        f"  met {met:6.1%} (worst case {row.worst:6.1%})  equal {equal:6.1%}  left {row.left:.3f}"
        f"  else {row.hard_met} of {row.hard}, fixed {row.hard_fixed}"
    )


if __name__ == "__main__":
    main()
