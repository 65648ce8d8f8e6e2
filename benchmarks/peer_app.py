"""The same tasks for another library's worker: dramatiq's, or taskiq's.

    python -m benchmarks.peer_app TASK NUMBER

publishes so many of them. ``PEER_LIBRARY`` names the library, ``PEER_BROKER`` is the broker's URL,
``PEER_COUNTS`` where starts are counted. It needs none of what celery-fair needs.
"""

import asyncio
import os
import sys
from time import sleep
from typing import Any

from benchmarks.counts import Counter

URL = os.environ["PEER_BROKER"]
QUEUE = "jobs"
_start = Counter(os.environ["PEER_COUNTS"])


def plain(seq: int) -> None:  # noqa: ARG001 - the publisher's
    _start()


def slow(seq: int) -> None:  # noqa: ARG001
    _start()
    sleep(0.01)


TASKS = {"plain": plain, "10 ms": slow}


def with_dramatiq() -> tuple[Any, dict[str, Any]]:
    import dramatiq

    if URL.startswith("redis"):
        from dramatiq.brokers.redis import RedisBroker as Broker
    else:
        from dramatiq.brokers.rabbitmq import RabbitmqBroker as Broker
    broker = Broker(url=URL)
    dramatiq.set_broker(broker)
    return broker, {n: dramatiq.actor(each, queue_name=QUEUE) for n, each in TASKS.items()}


def with_taskiq() -> tuple[Any, dict[str, Any]]:
    if URL.startswith("redis"):
        from taskiq_redis import ListQueueBroker

        broker = ListQueueBroker(URL, queue_name=QUEUE)
    else:
        from taskiq_aio_pika import AioPikaBroker

        broker = AioPikaBroker(URL)
    return broker, {name: broker.task(task_name=name)(each) for name, each in TASKS.items()}


LIBRARY = os.environ["PEER_LIBRARY"]
broker, tasks = {"dramatiq": with_dramatiq, "taskiq": with_taskiq}[LIBRARY]()


async def _kick(task: Any, number: int) -> None:
    await broker.startup()
    for seq in range(number):
        await task.kiq(seq)
    await broker.shutdown()


def publish(name: str, number: int) -> None:
    if LIBRARY == "taskiq":
        asyncio.run(_kick(tasks[name], number))
        return
    for seq in range(number):
        tasks[name].send(seq)


if __name__ == "__main__":
    publish(sys.argv[1], int(sys.argv[2]))
