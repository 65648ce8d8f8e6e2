"""What the page costs the workers that it asks, and how soon it answers about very many.

    python -m benchmarks.web [--json] [--rounds N] [--seconds S]

*Asked*: an idle worker (solo, RabbitMQ) with so many queues: the part of a processor that it takes
while a collector asks it, less what it takes while nobody does; beside it what the collector itself
takes, and how often a second it asks.

*Looked at*: a hundred workers with a thousand queues each, whose answers are read as JSON as they
would come from the broker; and a queue with ten thousand keys, each of which has a message waiting,
in a Redis: seconds until a page is whole, while the collector goes on; and what a processor took of
them, which is nearly all of it where nothing else runs.
"""

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from time import clock_gettime, monotonic, process_time, pthread_getcpuclockid, sleep
from typing import Any

from celery import Celery
from kombu import Connection

from benchmarks.progress import Progress
from benchmarks.turns import serving
from celery_fair.brokers.depths import Depths
from celery_fair.brokers.keyed.lists import KeyedLists
from celery_fair.brokers.redis import Commands
from celery_fair.operate.answers import Answers
from celery_fair.operate.workers import Crowd, Workers
from celery_fair.settings import Settings
from celery_fair.web.collector import Collector
from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.space import Space
from tests.web.answered import KnownDepths, row
from tests.web.visit import Visit, site_of
from tests.workers import starting_workers

QUEUES = (10, 100, 1000)
WORKERS, MANY, KEYS = 100, 1000, 10_000
REST = 3.0
"""Seconds after a worker is ready, of which nothing counts."""
PATIENCE = 300
LOOKS = 20


# Asked ------------------------------------------------------------------------


@contextmanager
def collecting(url: str) -> Iterator[Collector]:
    """What asks the workers once a second, as if somebody looked all the time."""
    app = Celery("shop", broker=url, set_as_current=False)
    with closing(Workers(app, (), 1.0)) as workers:
        collector = Collector(Crowd(workers).status, Depths(app.connection_for_read, ()))
        collector.start()
        try:
            yield collector
        finally:
            collector.close()
            thread(collector).join()


def thread(collector: Collector) -> Thread:
    """The thread that asks."""
    return collector._thread


def spent(collector: Collector) -> float:
    """Seconds of a processor that it has taken."""
    identity = thread(collector).ident
    assert identity is not None
    return clock_gettime(pthread_getcpuclockid(identity))


def asked(space: Space, queues: int, seconds: float) -> dict[str, float]:
    """Parts of a processor: of the worker, and of who asks it."""
    names = [f"q{number}" for number in range(queues)]
    with TemporaryDirectory() as folder, starting_workers(Path(folder)) as start:
        worker = start(space, queues=names, wait=False).wait_ready(PATIENCE)
        sleep(REST)
        before = worker.cpu_seconds()
        sleep(seconds)
        idle = worker.cpu_seconds() - before
        with collecting(space.url) as collector:
            while not collector.look().workers:
                sleep(0.1)
            before, own, number = worker.cpu_seconds(), spent(collector), collector.look().number
            since = monotonic()
            while monotonic() < since + seconds:
                sleep(1.0)
                collector.look()
            took = monotonic() - since
            busy, own = worker.cpu_seconds() - before, spent(collector) - own
            times = collector.look().number - number
    return {
        "worker": busy / took - idle / seconds,
        "collector": own / took,
        "times": times / took,
    }


# Looked at --------------------------------------------------------------------


def recorded(random: Random, number: int, times: Iterator[int]) -> Callable[[], str]:
    """What a worker answers as it comes from the broker, with other figures each time."""
    rows = {
        f"queue-{each:04}": row(
            quantum=float(random.choice((1, 10, 40))),
            target_share=0.001,
            share=random.random() / 500,
            cost_per_second=random.random() * 10,
            per_second=random.random() * 10,
            buffered=random.randrange(20),
            in_flight=random.randrange(3),
            waiting_seconds=random.random(),
            held=random.choice((None, None, None, "cap", "leash")),
            rate=10.0 if each % 10 == 0 else None,
            burst=1.0 if each % 10 == 0 else None,
            served=number,
        )
        for each in range(MANY)
    }
    text = json.dumps(rows).replace(f'"served": {number}', '"served": %d')
    return lambda: text.replace("%d", str(next(times)))


@contextmanager
def many() -> Iterator[Visit]:
    """A site of many workers with many queues, whose collector goes on."""
    random, times = Random(7), count(1)
    texts = [recorded(random, each, times) for each in range(WORKERS)]

    def ask() -> Answers:
        said = {f"celery@host{number:03}": json.loads(each()) for number, each in enumerate(texts)}
        return Answers.of(said, (), 1.0)

    site = site_of({})
    site.warm_up()
    depths = KnownDepths({f"queue-{each:04}": 100 * each for each in range(MANY)})
    site.collector = Collector(ask, depths)
    site.collector.start()
    try:
        while site.collector.look().number < 2:
            sleep(0.1)
        yield Visit(site)
    finally:
        site.collector.close()
        thread(site.collector).join()


@contextmanager
def keyed() -> Iterator[Visit]:
    """A site with a queue of many keys."""
    with serving(RedisServer()) as server:
        url = server.space().url
        site = site_of({}, broker=url, conf={"fair_keys": {"jobs": {}}})
        with Connection(url) as connection:
            channel = connection.default_channel
            keys = Settings.of(site.app).keys["jobs"]
            lists = KeyedLists(channel, Commands(channel), keys)
            for number in range(KEYS):
                lists.put(f"tenant-{number}", "", "", "{}")
        yield Visit(site)


def looked(visit: Visit, path: str) -> list[tuple[float, float]]:
    """Seconds that a page takes, and those of a processor, again and again."""
    collector, took = visit.site.collector, []
    for _ in range(LOOKS):
        others = spent(collector) if thread(collector).is_alive() else 0.0
        before, own = monotonic(), process_time()
        response = visit.get(path)
        seconds, own = monotonic() - before, process_time() - own
        others = spent(collector) - others if thread(collector).is_alive() else 0.0
        took.append((seconds, own - others))
        assert response.status_code == 200, response.text
        sleep(0.13)  # not in step with the collector
    return took


PAGES = {
    "queues": "/queues",
    "queues, the tenth page": "/queues?page=10&sort=-backlog",
    "queues, found": "/queues?q=99",
    "workers": "/workers",
    "worker, all its queues": "/worker?name=celery%40host007",
}


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0)
    given = parser.parse_args()
    progress = Progress(given.rounds * len(QUEUES) + len(PAGES) + 1)
    costs: dict[int, dict[str, float]] = {}
    with serving(RabbitMQ()) as server:
        for queues in QUEUES:
            runs = []
            for _ in range(given.rounds):
                runs.append(asked(server.space(), queues, given.seconds))
                progress.step(f"asked, {queues} queues")
            costs[queues] = {name: median(run[name] for run in runs) for name in runs[0]}
    pages: dict[str, dict[str, float]] = {}
    with many() as visit:
        for name, path in PAGES.items():
            pages[name] = summed(looked(visit, path))
            progress.step(name)
    with keyed() as visit:
        pages["keys"] = summed(looked(visit, "/keys?queue=jobs"))
        progress.step("keys")
    progress.close()
    if given.json:
        print(json.dumps({"asked": costs, "looked at": pages}))
    else:
        show(costs, pages)


def summed(times: list[tuple[float, float]]) -> dict[str, float]:
    """The median and the longest, and the median of what a processor took."""
    took, own = zip(*times, strict=True)
    return {"median": median(took), "longest": max(took), "processor": median(own)}


def show(costs: dict[int, dict[str, Any]], pages: dict[str, dict[str, float]]) -> None:
    """Print both tables."""
    print("| queues of a worker | asked a second | of a core, the worker | who asks |")
    print("|---:|---:|---:|---:|")
    for queues, cost in costs.items():
        often = f"{cost['times']:.2f}"
        print(f"| {queues:,} | {often} | {cost['worker']:.2%} | {cost['collector']:.2%} |")
    print(f"\n{WORKERS} workers × {MANY:,} queues, {KEYS:,} keys\n")
    print("| page | median | longest | of a processor |")
    print("|---|---:|---:|---:|")
    for name, took in pages.items():
        print(f"| {name} | {' | '.join(f'{1000 * each:.0f} ms' for each in took.values())} |")


if __name__ == "__main__":
    main()
