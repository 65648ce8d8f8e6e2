"""What fairness by key costs, and what it gives.

    python -m benchmarks.keys [--json] [decision] [server] [worker] [rabbitmq] [shares] [waits]

decision    a decision of `core.keys.tags`, tenants and parts, by the number of keys; and the
            memory of a key that waits. Target: 4 µs, and flat within twice from 10 to 100,000
server      what a message costs that a worker takes, and acknowledges: by ``fetch.lua`` from one
            list and by ``pop.lua`` from so many keys' lists, in turns, by the number of messages
            taken at once; and with parts of tenants that have a cap. Redis's memory for a key with
            one message beyond that of the message. Targets: 1.3 times, and with parts and caps
            twice
worker      tasks per second of a fair worker (no work, threads 8) with one queue, and with the same
            shared by 1,000 keys; in turns. Target: 0.8 times
rabbitmq    the same on RabbitMQ, with 20 keys that have a lane each, beside a queue that is pushed
            and one that is pulled; by the pool and the seconds that a task takes. Targets: 1.5
            times what is pulled, and with tasks of 5 ms 0.95 times what is pushed
shares      20 floods with weights of 1 to 10, and eight workers: by how much a share is off at the
            most, when the lightest has had 100 messages; and how far from the mean any of 300
            tenants is when half of their 100 messages each have started, that were published tenant
            after tenant. Targets: 5 % on RabbitMQ; 2 % with a store of keys there, and on Redis;
            10 % of the mean with a store, and on Redis
waits       simulated, in task times: how long a quiet tenant's message waits while so many others
            have a backlog and 8 slots are busy; with tags, and with a ring of turns
"""

import json
import random
import tracemalloc
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from kombu import Connection, Queue

from benchmarks.contestant import Contestant, contestant
from benchmarks.progress import Progress
from benchmarks.turns import parser_of, serving, show_rows, take_turns
from celery_fair.brokers.keyed.lists import KeyedLists
from celery_fair.brokers.lanes import Lanes, lane
from celery_fair.brokers.redis import Commands, Script
from celery_fair.core.keys.tags import TenantTags
from celery_fair.headers import FAIR_KEY
from celery_fair.settings import KeyedQueue
from celery_fair.worker.queues.redis import fetching
from tests.brokers import RabbitMQ, RedisServer
from tests.keys.tenants import Tenants
from tests.publishing import publish
from tests.workers import starting_workers

COUNTS = (10, 1_000, 100_000)
DECISIONS = 100_000
ROUNDS = 5
SLOTS = 8
LANES = 20
POOLS = {"solo": 1, "threads": 8, "prefork": 2, "gevent": 8, "eventlet": 8}
Rows = list[dict[str, Any]]


def decision(progress: Progress) -> Rows:
    """Microseconds, and bytes a key."""
    rows = []
    for keys in COUNTS:
        for parts in (1, 2):
            taken = [decide(keys, parts) for _ in range(ROUNDS)]
            rows.append({"keys": keys, "parts of each": parts, "µs": 1e6 * median(taken)})
            rows[-1]["bytes a key"] = memory(keys, parts)
            progress.step("decision")
    return rows


def waiting(keys: int, parts: int) -> TenantTags:
    tags = TenantTags(lambda tenant: 1.0)
    for number in range(keys):
        tags.arrive(f"tenant-{number // parts}", f"part-{number % parts}" if parts > 1 else "")
    return tags


def decide(keys: int, parts: int) -> float:
    tags = waiting(keys, parts)
    charges = [random.uniform(0.5, 1.5) for _ in range(DECISIONS)]
    began = process_time()
    for charge in charges:
        tenant, part = tags.first()  # type: ignore[misc]
        tags.serve(tenant, part, charge, True)
    return (process_time() - began) / DECISIONS


def memory(keys: int, parts: int) -> float:
    tracemalloc.start()
    kept = waiting(keys, parts)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept.tenants
    return size / keys


def server(progress: Progress) -> Rows:
    """Microseconds of wall time a message, by whom it was taken."""
    rows = []
    with serving(RedisServer()) as redis, Connection(redis.space().url) as connection:
        channel = connection.channel()
        send = Commands(channel)
        for keyed, parts in ((KeyedQueue("jobs"), 1), (KeyedQueue("jobs", max_in_flight=10**6), 2)):
            for keys in COUNTS:
                for at_once in (1, 10, 50):
                    one, many = [], []
                    size = fill(send, channel, connection, keyed, keys, parts)
                    for number in range(ROUNDS):
                        one.append(by_fetch(send, channel, at_once))
                        many.append(by_pop(send, channel, keyed, at_once, number))
                    ratio = median(ours / theirs for ours, theirs in zip(many, one, strict=True))
                    rows.append({"keys": keys, "parts, cap": "no" if parts == 1 else "yes"})
                    rows[-1] |= {"at once": at_once, "fetch, µs": 1e6 * median(one)}
                    rows[-1] |= {"pop, µs": 1e6 * median(many), "ratio": ratio, "bytes a key": size}
                    progress.step("server")
    return rows


TAKEN = 500
"""Messages in a turn."""


def fill(
    send: Commands, channel: Any, connection: Any, keyed: KeyedQueue, keys: int, parts: int
) -> float:
    """A plain queue, and one with a message for each key at least, sorted; return a key's bytes."""
    send("FLUSHDB")
    enough = TAKEN * (ROUNDS + 1)
    publish(connection.as_uri(include_password=True), {"plain": enough})
    lists = KeyedLists(channel, send, keyed)
    (message,) = send("LRANGE", "plain", 0, 0)
    headers = b'"headers": {'
    total = max(keys, enough)
    for start in range(0, total, 1000):
        some = [
            message.replace(headers, headers + name(number % keys, parts), 1)
            for number in range(start, min(start + 1000, total))
        ]
        send("LPUSH", "jobs", *some)
    unsorted: int = channel.client.info("memory")["used_memory"]
    lists.sort(until=float("inf"))
    sorted_: int = channel.client.info("memory")["used_memory"]
    return (sorted_ - unsorted) / keys


def name(key: int, parts: int) -> bytes:
    """The header of a key, of which so many are parts of one tenant."""
    part = f"/part-{key % parts}" if parts > 1 else ""
    return f'"x-fair-key": "tenant-{key // parts}{part}", '.encode()


def settle(send: Commands, prefix: str, count: int) -> None:
    tags = [f"{prefix}{number}" for number in range(1, count + 1)]
    unacked, index = send.unacked
    send.all([("HDEL", unacked, *tags), ("ZREM", index, *tags)])


def by_fetch(send: Commands, channel: Any, at_once: int) -> float:
    script = Script(send, fetching())
    keys = [*send.unacked, *send.lists("plain")]
    script(keys, [0, len(channel.priority_steps), "w.", 0, "plain"])
    began = perf_counter()
    for number in range(TAKEN // at_once):
        script(keys, [0, len(channel.priority_steps), f"f{number}.", at_once, "plain"])
        settle(send, f"f{number}.", at_once)
    return (perf_counter() - began) / TAKEN


def by_pop(send: Commands, channel: Any, keyed: KeyedQueue, at_once: int, turn: int) -> float:
    lists = KeyedLists(channel, send, keyed)
    lists.pop(0, 1.0, "w.", [])
    began = perf_counter()
    for number in range(TAKEN // at_once):
        lists.pop(at_once, 1.0, f"p{turn}.{number}.", [])
        settle(send, f"p{turn}.{number}.", at_once)
    return (perf_counter() - began) / TAKEN


def worker(progress: Progress) -> Rows:
    """Tasks per second, the plain queue's first."""
    options: dict[str, Any] = {"pool": "threads", "concurrency": SLOTS, "quiet": False}
    keyed = {"fair_keys": {"jobs": {}}}
    with ExitStack() as stack:
        redis = stack.enter_context(serving(RedisServer()))
        plain, shared = (
            stack.enter_context(contestant(name, redis, {"jobs": 1}, conf=conf, **options))
            for name, conf in (("plain", {}), ("keyed", keyed))
        )
        take_turns([plain, shared], ROUNDS, 0.6, 500, progress, "worker")
    pairs = list(zip(shared.runs, plain.runs, strict=True))
    return [
        {
            "plain, tasks/s": median(run.speed for run in plain.runs),
            "keyed, tasks/s": median(run.speed for run in shared.runs),
            "ratio": median(ours.speed / theirs.speed for ours, theirs in pairs),
        }
    ]


class OfLanes(Contestant):
    """Its backlog is in lanes, as publishers with this library would have it."""

    def _publish(self, counts: Mapping[str, int]) -> None:
        url, (queue, total) = self.worker.broker_url, *counts.items()
        lanes = Lanes(partial(Connection, url), Queue(queue), LANES)
        while lanes.counted() < LANES:
            lanes.add()
        lanes.drop()
        for number in range(LANES):
            each = {lane(Queue(queue), number).name: total // LANES + 1}
            headers = {FAIR_KEY: f"tenant-{number}"}
            publish(url, each, self._task, persistent=False, headers=headers)


def rabbitmq(progress: Progress) -> Rows:
    """Tasks per second."""
    rows = []
    ways: dict[str, tuple[type[Contestant], dict[str, Any]]] = {
        "push": (Contestant, {}),
        "pull": (Contestant, {"fair_queues": {"jobs": {"fetch": "pull"}}}),
        "keyed": (OfLanes, {"fair_keys": {"jobs": {}}}),
    }
    with serving(RabbitMQ()) as server:
        for task in ("plain", "5 ms"):
            for pool, slots in POOLS.items():
                options: dict[str, Any] = {"pool": pool, "concurrency": slots, "quiet": False}
                with ExitStack() as stack:
                    everybody = [
                        stack.enter_context(
                            contestant(name, server, {"jobs": 1}, task, kind, conf=conf, **options)
                        )
                        for name, (kind, conf) in ways.items()
                    ]
                    label = f"rabbitmq {pool} {task}"
                    take_turns(everybody, ROUNDS, 0.6, 200, progress, label)
                row: dict[str, Any] = {"task": task, "pool": f"{pool} {slots}"}
                for each in everybody:
                    row[f"{each.name}, tasks/s"] = median(run.speed for run in each.runs)
                keyed = everybody.pop()
                for other in everybody:
                    pairs = zip(keyed.runs, other.runs, strict=True)
                    row[f"of {other.name}"] = median(one.speed / two.speed for one, two in pairs)
                rows.append(row)
    return rows


FLOODS = {f"key{number}": 1 + number % 10 for number in range(20)}
NIGHT = {f"tenant{number}": 100 for number in range(300)}
NAP = 0.02
"""Seconds that a task of these takes."""


def shares(progress: Progress) -> Rows:
    """Largest errors, and from how many starts."""
    rows = []
    with ExitStack() as stack:
        rabbitmq = stack.enter_context(serving(RabbitMQ()))
        redis = stack.enter_context(serving(RedisServer()))
        for name, server, conf in (
            ("RabbitMQ", rabbitmq, {}),
            ("RabbitMQ, store", rabbitmq, {"fair_key_store": redis.url()}),
            ("Redis", redis, {}),
        ):
            keys = {key: {"weight": weight} for key, weight in FLOODS.items()}
            starts = 100 * sum(FLOODS.values())
            counts = {key: 130 * weight for key, weight in FLOODS.items()}
            got = started(server, conf | {"fair_keys": {"jobs": {"keys": keys}}}, counts, starts)
            off = [abs(got[key] / (100 * weight) - 1) for key, weight in FLOODS.items()]
            progress.step(f"shares {name}")
            half = sum(NIGHT.values()) // 2
            night = started(server, conf | {"fair_keys": {"jobs": {}}}, NIGHT, half)
            away = [night[key] / (count / 2) - 1 for key, count in NIGHT.items()]
            progress.step(f"shares {name}")
            rows.append(
                {
                    "broker": name,
                    "largest error of a share": max(off),
                    "at half time, least": min(away),
                    "most": max(away),
                }
            )
    return rows


def started(
    server: RabbitMQ | RedisServer, conf: dict[str, Any], counts: dict[str, int], most: int
) -> Counter[str]:
    """Return whose the first so many messages were that eight workers started."""
    space = server.space()
    tenants = Tenants(space.url, installed=True)
    tenants.publish(counts, "nap", (NAP,))
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        options: dict[str, Any] = {"pool": "threads", "concurrency": 1, "queues": ["jobs"]}
        workers = [start(space, wait=False, conf=conf, **options) for _ in range(SLOTS)]
        records = workers[0].records.started
        records.wait(most, 600)
        return Counter(tenants.started(records)[:most])


class Ring:
    """Turns of one message each, newcomers last."""

    def __init__(self) -> None:
        self._turns: deque[str] = deque()

    def arrive(self, tenant: str) -> None:
        self._turns.append(tenant)

    def take(self, more: Callable[[str], bool]) -> str:
        tenant = self._turns.popleft()
        if more(tenant):
            self._turns.append(tenant)
        return tenant


class ByTags:
    """As the worker chooses."""

    def __init__(self) -> None:
        self._tags = TenantTags(lambda tenant: 1.0)

    def arrive(self, tenant: str) -> None:
        self._tags.arrive(tenant)

    def take(self, more: Callable[[str], bool]) -> str:
        tenant, part = self._tags.first()  # type: ignore[misc]
        self._tags.serve(tenant, part, 1.0, more(tenant))
        return tenant


def waits(progress: Progress) -> Rows:
    """In task times, median and longest."""
    rows = []
    for tenants in (10, 100, 1_000):
        row: dict[str, Any] = {"backlogged": tenants}
        for name, order in (("tags", ByTags()), ("ring", Ring())):
            found = sorted(quiet_waits(order, tenants))
            row |= {f"{name}, median": found[len(found) // 2], f"{name}, longest": found[-1]}
        rows.append(row)
        progress.step("waits")
    return rows


def quiet_waits(order: ByTags | Ring, tenants: int) -> list[float]:
    """A message now and then, in all less than a share, once all others have had their first."""
    for number in range(tenants):
        order.arrive(f"t{number}")
    slots, share = [random.random() for _ in range(SLOTS)], tenants / SLOTS
    found: list[float] = []
    comes, came = 2 * share, False
    while len(found) < 40:
        now = min(slots)
        if not came and now >= comes:
            came = True
            order.arrive("quiet")
        if order.take(lambda tenant: tenant != "quiet") == "quiet":
            found.append(now - comes)
            comes, came = now + (1.5 + random.random()) * share, False
        slots[slots.index(now)] = now + 1
    return found


PARTS: dict[str, tuple[Callable[[Progress], Rows], int]] = {
    "decision": (decision, 6),
    "server": (server, 18),
    "worker": (worker, ROUNDS),
    "rabbitmq": (rabbitmq, 2 * len(POOLS) * ROUNDS),
    "shares": (shares, 6),
    "waits": (waits, 3),
}


def main() -> None:
    parser = parser_of("benchmarks.keys", __doc__)
    parser.add_argument("what", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    args = parser.parse_args()
    what = args.what or list(PARTS)
    if unknown := set(what) - set(PARTS):
        parser.error(f"no part {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    random.seed(1)
    progress = Progress(sum(PARTS[name][1] for name in what))
    found = {}
    for name in what:
        found[name] = PARTS[name][0](progress)
        if not args.json:  # what was measured stays, should another part fail
            progress.close()
            show_rows(found[name])
    progress.close()
    if args.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
