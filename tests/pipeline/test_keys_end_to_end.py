"""From a real worker of a queue that is shared by key to what the commands say of its keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.brokers import Space
from tests.keys.tenants import QUEUE, publisher, send
from tests.pipeline.test_commands import run
from tests.workers import StartWorker

if TYPE_CHECKING:
    from pathlib import Path


FLOODS: dict[Any, int] = {"heavy": 300, "light": 150}
FEW: dict[Any, int] = {"quiet": 1, ("part", 1): 5, ("part", 2): 5}
UNEVEN: dict[str, Any] = {"fair_keys": {QUEUE: {"keys": {"heavy": {"weight": 3}}}}}


@pytest.mark.wide
@pytest.mark.timeout(1200)  # five commands, each of many jobs
@pytest.mark.usefixtures("spark")
def test_what_keys_got(redis_space: Space, start_worker: StartWorker, tmp_path: Path) -> None:
    log, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with publisher(redis_space.url) as app:
        ids = [id_ for key, count in (FLOODS | FEW).items() for id_ in send(app, key, count)]
    conf = UNEVEN | {"fair_event_log": str(log)}
    worker = start_worker(redis_space, queues=[QUEUE], conf=conf)
    worker.records.started.wait_once(ids)
    assert worker.stop() == 0

    assert run("ingest", log, warehouse, "--quiet").exit_code == 0
    said = run("fairness", warehouse, "--by", "key", "--json", "--quiet", "--fail-on-unfair")
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    keys = {(key["tenant"], key["part"]): key for key in found["keys"]}
    assert keys["heavy", ""]["weight"] == 3
    assert {key["unit"] for key in keys.values()} <= {"messages", None}
    assert "UNFAIR" not in {key["verdict"] for key in keys.values()}
    assert keys["heavy", ""]["served"] > 2 * keys["light", ""]["served"] > 0
    assert {part for tenant, part in keys if tenant == "part"} == {"", "1", "2"}

    (first,) = json.loads(run("waits", warehouse, "--first", "--json", "--quiet").stdout)
    assert (first["queue"], first["started"]) == (QUEUE, len(FLOODS) + 2)
    used = json.loads(run("costs", warehouse, "--by", "key", "--json", "--quiet").stdout)
    counts = FLOODS | {"quiet": 1, "part": 10}
    assert {row["tenant"]: row["n"] for row in used} == counts
    audited = json.loads(run("audit", warehouse, "--by", "key", "--json", "--quiet").stdout)
    assert {row["tenant"]: row["finished"] for row in audited["keys"]} == counts
