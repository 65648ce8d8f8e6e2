"""`fair_cost_model`: a worker that runs loads what the pipeline has learned since."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.brokers import Space
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker

pytestmark = pytest.mark.newest


@pytest.mark.wide
def test_model_is_loaded_again_when_it_changes(
    redis_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    model = tmp_path / "costs.json"
    conf = {"fair_cost": "runtime", "fair_cost_model": str(model)}
    worker = start_worker(redis_space, queues=["light"], conf=conf, loglevel="INFO")

    def work_until(words: str, times: int = 1) -> None:
        """A worker looks when it has something to do."""

        def told() -> bool:
            publish(redis_space.url, {"light": 1}, "nap", [0])
            return worker.log().count(words) >= times

        wait_for(told, 30, worker.log, interval=0.2)

    work_until("is not loaded: [Errno 2]")
    for times, seconds in enumerate((0.1, 0.2), start=1):
        mean = {"mean": seconds, "n": 50}
        model.write_text(json.dumps({"v": 1, "tasks": {"nap": mean}, "keys": {}}))
        work_until("Loaded the run times", times)
    model.write_text("{")
    work_until("is not loaded: Expecting")
    assert worker.running
