"""What Prometheus is told of keys: of few of them, whoever comes."""

from __future__ import annotations

import time
from typing import Any

from tests.apps.settings import CONSTANTS
from tests.brokers import Space
from tests.integration.gate import Gate
from tests.keys.tenants import KEYED, QUEUE, Tenants
from tests.ports import free_port
from tests.publishing import publish
from tests.test_metrics import OF_KEYS, samples
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

STARTED, RUNNING = "celery_fair_key_started_total", "celery_fair_key_running"
FIRST = "celery_fair_first_wait_seconds"


def test_starts_and_what_runs_by_key(
    space: Space, start_worker: StartWorker, tenants: Tenants, gate: Gate
) -> None:
    port = free_port()
    most = {"celery_fair.worker.observe.figures._MOST_KEYS": 2}
    served: dict[str, Any] = {"fair_metrics": f"127.0.0.1:{port}", CONSTANTS: most}
    worker = start_worker(
        space, pool="threads", concurrency=4, queues=[QUEUE, "plain"], conf=KEYED | served
    )
    ids = tenants.publish({"a": 3, "b/1": 2})
    worker.records.started.wait_once(ids)
    worker.records.started.wait_once(tenants.publish({"c": 1, "d": 2}))
    worker.records.started.wait_once(publish(space.url, {"plain": 2}).all())
    wait_equal(
        lambda: {k: v for k, v in samples(port).items() if k[0] == STARTED},
        {(STARTED, QUEUE, "a"): 3, (STARTED, QUEUE, "b"): 2, (STARTED, QUEUE, "other"): 3},
    )

    tenants.publish({"a": 1, "c": 1, "d": 1}, "hold", [str(gate.path)])
    wait_equal(
        lambda: {k[1:]: v for k, v in samples(port).items() if k[0] == RUNNING},
        {(QUEUE, "a"): 1, (QUEUE, "b"): 0, (QUEUE, "other"): 2},
    )
    gate.open()
    wait_equal(lambda: sum(v for k, v in samples(port).items() if k[0] == RUNNING), 0)


def test_the_wait_of_a_quiet_key(
    space: Space, start_worker: StartWorker, tenants: Tenants, gate: Gate
) -> None:
    """Of five messages of one that wait together, the first alone; without a time, none."""
    port = free_port()
    worker = start_worker(space, queues=[QUEUE], conf=KEYED | {"fair_metrics": f"127.0.0.1:{port}"})
    held = tenants.publish({"busy": 1}, "hold", [str(gate.path)])
    worker.records.started.wait_ids(held)
    headers = {"x-fair-key": "quiet", "x-fair-published": time.time() - 7}
    ids = publish(space.url, {QUEUE: 5}, headers=headers).all()
    gate.open()
    worker.records.started.wait_once(ids)
    wait_for(lambda: samples(port).get((f"{FIRST}_count", QUEUE)) == 1, 30)
    assert 7 <= samples(port)[f"{FIRST}_sum", QUEUE] < 60
    assert {name for name, *_ in samples(port)} >= OF_KEYS


def test_what_is_no_time_is_left_out(
    space: Space, start_worker: StartWorker, tenants: Tenants
) -> None:
    port = free_port()
    worker = start_worker(space, queues=[QUEUE], conf=KEYED | {"fair_metrics": f"127.0.0.1:{port}"})
    for number, published in enumerate([10**400, "soon", None, [1], -1e300]):
        headers = {"x-fair-key": str(number), "x-fair-published": published}
        worker.records.started.wait_once(publish(space.url, {QUEUE: 1}, headers=headers).all())
    wait_equal(lambda: sum(v for k, v in samples(port).items() if k[0] == STARTED), 5)
    assert (f"{FIRST}_count", QUEUE) not in samples(port)
