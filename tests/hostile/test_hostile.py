"""Some hundreds of hostile messages; `python -m tests.hostile` has as many as you like."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.brokers import Space
from tests.hostile.messages import hostile
from tests.hostile.run import Way, play
from tests.workers import StartWorker

pytestmark = pytest.mark.newest

WAYS = (Way("prefork", fast=True), Way("threads", fast=False), Way("solo", fast=True))
EACH = 100
SEED = 16


@pytest.mark.parametrize(
    "space", ["rabbitmq", pytest.param("redis", marks=pytest.mark.wide)], indirect=True
)
@pytest.mark.parametrize(
    "way", [WAYS[0], *(pytest.param(way, marks=pytest.mark.wide) for way in WAYS[1:])], ids=str
)
def test_hostile_messages(space: Space, start_worker: StartWorker, way: Way) -> None:
    """The worker lives, good ones start, and each of the others comes to the end that it has to."""
    first = EACH * WAYS.index(way)
    messages = list(islice(hostile(space.kind, SEED, first), EACH))
    result = play(way, space, messages, start_worker)
    assert not result.broken
    assert result.outcomes.total() == EACH
