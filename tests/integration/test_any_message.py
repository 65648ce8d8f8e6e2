"""As `test_malformed`, with generated messages."""

from __future__ import annotations

import json

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.brokers import Space
from tests.fast_path.wire import CHARACTERS
from tests.integration.depths import left
from tests.integration.malformed import BODY, Malformed
from tests.integration.survivor import PATIENCE, Survivor
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker

pytestmark = pytest.mark.newest

TEXT = st.text(CHARACTERS, max_size=20)
SCALARS = st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.floats() | TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)
NAMES = ["task", "id", "lang", "eta", "expires", "timelimit", "retries", "group", "root_id"]
NAMES += ["stamps", "stamped_headers", "replaced_task_nesting", "compression", "redelivered"]
NAMES += ["ignore_result", "parent_id", "argsrepr", "shadow", "x-fair-strict", "x-fair-published"]
MESSAGES = st.builds(
    Malformed,
    headers=st.dictionaries(st.sampled_from(NAMES) | TEXT, VALUES, max_size=4),
    body=st.binary(max_size=40) | (VALUES.map(json.dumps) | st.just(BODY)).map(str.encode),
    content_type=st.sampled_from(["application/json", "application/x-yaml", "text/plain", "?"]),
    content_encoding=st.sampled_from(["utf-8", "binary", "ascii", "x-unheard-of"]),
    bare=st.booleans(),
)


@pytest.fixture(scope="module")
def hardy(module_space: Space, start_module_worker: StartWorker) -> Survivor:
    return Survivor(start_module_worker, module_space.server.space(), "solo")


@pytest.mark.either_broker
@settings(max_examples=80, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(message=MESSAGES, once=st.booleans())
def test_any_message(hardy: Survivor, message: Malformed, once: bool) -> None:
    """The next good one runs, and of the other nothing is left behind."""
    worker = hardy.worker
    if once and "task" not in message.headers:
        message.headers = {**message.headers, "task": "before"}
    message.publish(hardy.space, "a")
    good = publish(hardy.space.url, {"a": 1}).all()

    worker.records.started.wait_once(good, PATIENCE)
    wait_for(lambda: left(hardy.space, "a") == 0, PATIENCE, worker.log)
    assert worker.running, worker.log()
    assert "Connection to broker lost" not in worker.log()
