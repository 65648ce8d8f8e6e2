"""What wakes an idle worker on Redis: what it costs, how soon it does, and what is lost by it.

    python -m benchmarks.wake_up [--json] [--queues N] [--messages N] [--stalls N]

vanilla  Celery's own worker, which waits in a BRPOP for a message to be handed to it
fair     is told that a list has changed (CLIENT TRACKING), and takes the message then
looking  a fair worker whose user may not be told: it looks at its queues again and again

Of each (solo): its share of a processor with so many idle queues; milliseconds from before a
message is published until it starts, after a rest of 0.2 to 0.3 s; and how many messages are lost
in so many stalls. In a stall the network takes nothing to or from the worker while a message is
published, and all its connections break off before it goes on.
"""

import json
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, monotonic_ns, sleep
from typing import Any

from redis import Redis

from benchmarks.progress import Progress
from benchmarks.turns import parser_of, serving, show_rows
from tests.brokers import RedisServer
from tests.brokers.space import Space
from tests.faults.proxy import Proxy
from tests.integration.depths import left
from tests.waiting import wait_for
from tests.workers import WorkerProcess, starting_workers

KINDS = ("vanilla", "fair", "looking")
QUEUE = "a"
REST = (0.2, 0.3)
SETTLED, IDLE = 5.0, 20.0
"""Seconds after a worker is ready of which nothing counts, and that do."""
STALLED = 0.05
"""Seconds from the publishing until connections break off: the server has handed it out by then."""
RETURNS = 60
CONF = {"broker_transport_options": {"visibility_timeout": 2, "unacked_restore_interval": 1}}
"""What a worker had taken when its connection broke off comes again soon: it is not lost."""


def started(start: Any, url: str, kind: str, queues: list[str], **conf: Any) -> WorkerProcess:
    worker: WorkerProcess = start(url, queues=queues, fair=kind != "vanilla", conf=conf)
    return worker


def sent(worker: WorkerProcess, number: int) -> str:
    return str(worker.client.send_task("noop", (number,), queue=QUEUE).id)


def idling(worker: WorkerProcess) -> float:
    """Its share of a processor, in percent."""
    sleep(SETTLED)
    cpu, since = worker.cpu_seconds(), monotonic()
    sleep(IDLE)
    return 100 * (worker.cpu_seconds() - cpu) / (monotonic() - since)


def latencies(worker: WorkerProcess, messages: int) -> list[float]:
    """Milliseconds, shortest first."""
    rests = Random(1)
    worker.records.started.wait_ids([sent(worker, 0)])  # which connects
    found = []
    for number in range(messages):
        sleep(rests.uniform(*REST))
        began = monotonic_ns()
        (record,) = worker.records.started.wait_once([sent(worker, number)])
        found.append((record.monotonic_ns - began) / 1e6)
    return sorted(found)


def lost(space: Space, kind: str, stalls: int) -> int:
    """How many messages, of one for each stall, never started and are nowhere any more."""
    rests = Random(2)
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy(space))
        folder = stack.enter_context(TemporaryDirectory())
        start = stack.enter_context(starting_workers(Path(folder)))
        worker = started(start, proxy.url, kind, [QUEUE], **CONF)
        direct = started(start, space.url, kind, ["other"])  # its client publishes past the proxy
        stalled = []
        for number in range(stalls):
            sleep(rests.uniform(*REST))
            proxy.hold()
            stalled.append(sent(direct, number))
            sleep(STALLED)
            proxy.cut()
            proxy.release()
            back(worker, direct)
        wait_for(lambda: not left(space, QUEUE), RETURNS, "all that is left to be taken")
        sleep(SETTLED)
        return stalls - len(worker.records.started.times(stalled))


def back(worker: WorkerProcess, direct: WorkerProcess) -> None:
    """Wait until it is at work again; one of those that show it may be lost, too."""
    shown: list[str] = []

    def works() -> bool:
        shown.append(sent(direct, 0))
        try:
            wait_for(lambda: bool(worker.records.started.times(shown)), 5, "a start")
        except TimeoutError:
            return False
        return True

    wait_for(works, RETURNS, f"the worker to be back\n{worker.log()}")


def main() -> None:
    parser = parser_of("benchmarks.wake_up", __doc__)
    parser.add_argument("--queues", type=int, default=1000, help="idle ones (default: 1000)")
    parser.add_argument("--messages", type=int, default=100, help="timed (default: 100)")
    parser.add_argument("--stalls", type=int, default=200, help="a worker (default: 200)")
    args = parser.parse_args()
    progress, rows = Progress(3 * len(KINDS)), []
    for kind in KINDS:
        with serving(RedisServer()) as server, ExitStack() as stack:
            if kind == "looking":
                with Redis.from_url(server.space().url) as client:
                    client.execute_command("ACL", "SETUSER", "default", "-client|tracking")
            folder = stack.enter_context(TemporaryDirectory())
            start = stack.enter_context(starting_workers(Path(folder)))
            row: dict[str, Any] = {"worker": kind}
            if args.queues:
                names = [f"q{number}" for number in range(args.queues)]
                worker = started(start, server.space().url, kind, names)
                row["idle, %"] = round(idling(worker), 2)
                worker.stop()
            progress.step(f"{kind}: idle")
            if args.messages:
                worker = started(start, server.space().url, kind, [QUEUE])
                waits = latencies(worker, args.messages)
                row |= {
                    "median, ms": round(median(waits), 2),
                    "95 %": round(waits[int(0.95 * len(waits))], 2),
                    "longest": round(waits[-1], 2),
                }
                worker.stop()
            progress.step(f"{kind}: latencies")
            if args.stalls:
                row["lost"] = lost(server.space(), kind, args.stalls)
            progress.step(f"{kind}: stalls")
            rows.append(row)
    progress.close()
    print(json.dumps(rows)) if args.json else show_rows(rows)


if __name__ == "__main__":
    main()
