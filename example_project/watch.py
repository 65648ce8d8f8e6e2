"""Watch which share of the running workers each of the shop's queues gets, second by second."""

import argparse
import time
from collections import Counter

from amqp import ChannelError
from kombu import Connection
from shop.celery import app

QUEUES = {route["queue"]: task for task, route in app.conf.task_routes.items()}


def started() -> Counter[str]:
    """How many tasks of each queue the workers have started since they are up."""
    total: Counter[str] = Counter()
    for stats in (app.control.inspect(timeout=1).stats() or {}).values():
        total.update({queue: stats["total"].get(task, 0) for queue, task in QUEUES.items()})
    return total


def waiting() -> dict[str, int]:
    """How many messages of each queue no worker has fetched yet."""
    with app.connection_for_read() as connection:
        return {queue: depth(connection, queue) for queue in QUEUES}


def depth(connection: Connection, queue: str) -> int:
    try:
        return connection.default_channel.queue_declare(queue, passive=True).message_count
    except ChannelError:  # there is no such queue; in Redis, an empty one is none
        return 0


def line(name: str, count: Counter[str]) -> str:
    total = sum(count.values()) or 1
    shares = "".join(f"{100 * count[queue] / total:14.1f} %" for queue in QUEUES)
    return f"{name:>8}{shares}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="how long (default 10)")
    end = time.monotonic() + parser.parse_args().seconds
    print(f"{'':8}" + "".join(f"{queue:>16}" for queue in QUEUES), flush=True)
    first = before = started()
    while time.monotonic() < end:
        now = started() or before  # waits a second for the workers' answers
        if not all(waiting().values()):  # what is left has no rivals
            break
        print(line("", now - before), flush=True)
        before = now
    print(line("in all", before - first))
    left = waiting()
    print(f"{'waiting':>8}" + "".join(f"{left[queue]:16,}" for queue in QUEUES))


if __name__ == "__main__":
    main()
