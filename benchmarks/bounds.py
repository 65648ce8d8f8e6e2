"""What no worker of Celery's can pass, whatever it does itself: its pool, and Redis's client.

    python -m benchmarks.bounds [--json] [--rounds N]

prefork     billiard's pool under kombu's event loop, without Celery: two children, a function that
            does nothing, the next call when a child is free (one each), or four calls each handed
            over before
Redis       what kombu asks of Redis for a message, by the same client library, without kombu: a
            BRPOP, a pipeline that records it, a pipeline that acknowledges it; and a fair worker's
            way, a script for fifty messages, and one command for all acknowledgements of a turn

Messages per second, and microseconds of the main process's CPU; medians of the rounds.
"""

import json
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time, time
from typing import Any

from celery.concurrency.asynpool import AsynPool
from kombu import Connection
from kombu.asynchronous import Hub, set_event_loop
from redis import Redis

from benchmarks.turns import parser_of, serving
from celery_fair.brokers.redis import Commands, Script
from celery_fair.worker.queues.redis import fetching
from tests.brokers import RedisServer
from tests.publishing import publish

CALLS = 20_000
MESSAGES = 5_000
CHILDREN = 2
AT_ONCE = 50
Figures = tuple[float, float]
"""Messages per second, and seconds of the processor for each."""


def nothing() -> None:
    """What the children do."""


def timed(count: int, work: Callable[[], object]) -> Figures:
    began, cpu = perf_counter(), process_time()
    work()
    return count / (perf_counter() - began), (process_time() - cpu) / count


def by_pool(ahead: int) -> Figures:
    """So many calls for each child are in the pool at a time."""
    hub = Hub()
    set_event_loop(hub)
    pool = AsynPool(CHILDREN, synack=False, threads=False)
    try:
        pool.register_with_event_loop(hub)
        return timed(CALLS, lambda: _call(hub, pool, CHILDREN * ahead))
    finally:
        pool.terminate()
        pool.join()
        set_event_loop(None)


def _call(hub: Any, pool: Any, most: int) -> None:
    loop, ended, begun = hub.create_loop(), [], 0
    while len(ended) < CALLS:
        while begun < CALLS and begun - len(ended) < most:
            begun += 1
            pool.apply_async(nothing, callback=ended.append)
        next(loop)


def by_kombus_commands(url: str) -> Figures:
    publish(url, {"plain": MESSAGES})
    with Redis.from_url(url) as client:

        def work() -> None:
            for number in range(MESSAGES):
                _, raw = client.brpop(["plain"], 1)  # type: ignore[misc]
                with client.pipeline() as pipe:
                    pipe.zadd("unacked_index", {str(number): time()})
                    pipe.hset("unacked", str(number), raw).execute()
                with client.pipeline() as pipe:
                    pipe.zrem("unacked_index", str(number)).hdel("unacked", str(number)).execute()

        return timed(MESSAGES, work)


def by_script(url: str) -> Figures:
    publish(url, {"plain": MESSAGES})
    with Connection(url) as connection:
        channel = connection.channel()
        send = Commands(channel)
        script = Script(send, fetching())
        keys, steps = [*send.unacked, *send.lists("plain")], len(channel.priority_steps)
        unacked, index = send.unacked

        def work() -> None:
            for number in range(MESSAGES // AT_ONCE):
                script(keys, [0, steps, f"{number}.", AT_ONCE, "plain"])
                tags = [f"{number}.{place}" for place in range(1, AT_ONCE + 1)]
                send.all([("HDEL", unacked, *tags), ("ZREM", index, *tags)])

        return timed(MESSAGES, work)


def main() -> None:
    parser = parser_of("benchmarks.bounds", __doc__)
    parser.add_argument("--rounds", type=int, default=5, help="(default: 5)")
    args = parser.parse_args()
    with serving(RedisServer()) as server:
        url = server.space().url
        ways: dict[str, Callable[[], Figures]] = {
            "prefork, one call each": lambda: by_pool(1),
            "prefork, four calls each": lambda: by_pool(4),
            "Redis, as kombu asks": lambda: by_kombus_commands(url),
            "Redis, as a fair worker asks": lambda: by_script(url),
        }
        runs = {name: [way() for _ in range(args.rounds)] for name, way in ways.items()}
    rows = [
        {
            "what": name,
            "messages/s": median(speed for speed, _ in found),
            "CPU, µs": 1e6 * median(cpu for _, cpu in found),
        }
        for name, found in runs.items()
    ]
    if args.json:
        print(json.dumps(rows))
        return
    print(f"{'':<30} {'messages/s':>10} {'CPU, µs':>8}")
    for row in rows:
        print(f"{row['what']:<30} {row['messages/s']:>10.0f} {row['CPU, µs']:>8.0f}")


if __name__ == "__main__":
    main()
