"""Consumers that do nothing but look at each message's headers and acknowledge it.

    python -m benchmarks.consumers NAME URL COUNT QUEUE ...

One with each client library, and one with the fair worker's own reader. Each prints, when it has
acknowledged so many messages, how many seconds that took from its first subscription on, and how
many of the processor.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from time import monotonic, process_time
from typing import Any

__all__ = ["CONSUMERS"]

PREFETCH = 256


class Tally:
    """Counts what has been acknowledged, from when it is made on."""

    def __init__(self, count: int) -> None:
        self.missing = count
        self._began, self._cpu = monotonic(), process_time()

    def add(self, headers: Any) -> bool:
        """Count a message, which must be a task's; return whether it was the last one."""
        assert headers["id"]
        self.missing -= 1
        return not self.missing

    def close(self) -> dict[str, float]:
        return {"seconds": monotonic() - self._began, "cpu": process_time() - self._cpu}


def with_py_amqp(url: str, count: int, queues: list[str]) -> dict[str, float]:
    from kombu import Connection

    with Connection(url) as pooled:
        connection = pooled.connection
        channel = connection.channel()
        channel.basic_qos(0, PREFETCH, False)
        tally = Tally(count)

        def take(message: Any) -> None:
            tally.add(message.headers)
            channel.basic_ack(message.delivery_tag)

        for queue in queues:
            channel.basic_consume(queue, callback=take)
        while tally.missing:
            connection.drain_events()
        return tally.close()


def with_pika(url: str, count: int, queues: list[str]) -> dict[str, float]:
    import pika

    found: dict[str, float] = {}

    def opened(connection: Any) -> None:
        connection.channel(on_open_callback=ready)

    def ready(channel: Any) -> None:
        channel.basic_qos(prefetch_count=PREFETCH)
        tally = Tally(count)

        def take(_: Any, delivery: Any, properties: Any, __: bytes) -> None:
            last = tally.add(properties.headers)
            channel.basic_ack(delivery.delivery_tag)
            if last:
                found.update(tally.close())
                channel.connection.close()

        for queue in queues:
            channel.basic_consume(queue, take)

    connection = pika.SelectConnection(
        pika.URLParameters(url),
        on_open_callback=opened,
        on_close_callback=lambda *_: connection.ioloop.stop(),
    )
    connection.ioloop.start()
    return found


def with_aio_pika(url: str, count: int, queues: list[str]) -> dict[str, float]:
    import aio_pika

    async def consume() -> dict[str, float]:
        over = asyncio.Event()
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            await channel.set_qos(PREFETCH)
            tally = Tally(count)

            async def take(message: Any) -> None:
                last = tally.add(message.headers)
                await message.ack()
                if last:
                    over.set()

            for queue in queues:
                await (await channel.get_queue(queue)).consume(take)
            await over.wait()
            return tally.close()

    return asyncio.run(consume())


def with_ours(url: str, count: int, queues: list[str]) -> dict[str, float]:
    """The worker's source, with its channel for each queue, and its event loop."""
    from kombu import Connection, Queue
    from kombu.asynchronous import Hub

    from celery_fair.core.dwrr import Flow
    from celery_fair.core.window import RefillMeter
    from celery_fair.worker.fast_path.path import FastPath
    from celery_fair.worker.queues.sources import AmqpSource
    from tests.feeds import gate, ports

    hub = Hub()
    with Connection(url) as connection:
        connection.connect()
        source = AmqpSource(connection, hub, RefillMeter(), lambda: None, FastPath.read)
        tally = Tally(count)
        feeds = [
            source.feed(
                queue=Queue(queue),
                flow=Flow(queue, 1.0),
                window=PREFETCH,
                gate=gate(),
                ports=ports(),
            )
            for queue in queues
        ]
        for feed in feeds:
            feed.open()
        while tally.missing:
            for feed in feeds:
                while feed.buffer:
                    message = feed.buffer.popleft()
                    tally.add(message.headers)
                    message.ack()
            source.flush()
            if tally.missing:
                hub.run_once()
        return tally.close()


CONSUMERS: dict[str, Callable[[str, int, list[str]], dict[str, float]]] = {
    "py-amqp": with_py_amqp,
    "pika": with_pika,
    "aio-pika": with_aio_pika,
    "fair reader": with_ours,
}


def main() -> None:
    name, url, count, *queues = sys.argv[1:]
    print(json.dumps(CONSUMERS[name](url, int(count), queues)))


if __name__ == "__main__":
    main()
