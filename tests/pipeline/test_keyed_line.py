"""Queues that are shared by key, in a replay."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from celery_fair.core.keys.tags import TenantTags
from celery_fair.pipeline.replay.line import Message, Start
from celery_fair.pipeline.replay.machine import Machine
from celery_fair.pipeline.replay.scenario import KeyPlan, Plan, Scenario, parse_scenario

USUAL = KeyPlan()


def starts(scenario: Scenario, *messages: Message) -> list[Start]:
    return list(Machine(scenario).run(messages))


def of(key: str | None, count: int, published: float = 0.0, runtime: float = 1.0) -> list[Message]:
    return [Message(published, "jobs", "t", None, runtime, key)] * count


def keyed(cost: str = "one", concurrency: int = 1, **keys: KeyPlan) -> Scenario:
    return Scenario(
        "s", concurrency=concurrency, cost=cost, queues={"jobs": Plan(usual=USUAL, keys=keys)}
    )


def test_a_quiet_key_is_next() -> None:
    made = starts(keyed(), *of("flood", 100), *of("quiet", 1, 10.5))
    [quiet] = [start for start in made if start.message.key == "quiet"]
    assert quiet.at == 11


def test_keys_share_by_weight() -> None:
    made = starts(keyed(a=KeyPlan(3.0)), *of("a", 400), *of("b", 400))
    first = Counter(start.message.key for start in made[:400])
    assert abs(first["a"] - 300) <= 2


def test_parts_gain_nothing() -> None:
    parts = [message for n in range(10) for message in of(f"a/{n}", 40)]
    made = starts(keyed(), *parts, *of("b", 400))
    first = Counter(str(start.message.key).partition("/")[0] for start in made[:400])
    assert abs(first["a"] - 200) <= 2


def test_what_is_charged_are_seconds_if_costs_are() -> None:
    made = starts(keyed("runtime"), *of("a", 400, runtime=4.0), *of("b", 400))
    seconds = Counter[str | None]()
    for start in made[:400]:
        seconds[start.message.key] += int(start.message.runtime)
    assert seconds["a"] / seconds["b"] == pytest.approx(1.0, abs=0.05)


def test_a_capped_key_leaves_its_place_to_others() -> None:
    scenario = keyed(concurrency=3, a=KeyPlan(max_in_flight=1))
    made = starts(scenario, *of("a", 4), *of("b", 4))
    assert [start.at for start in made if start.message.key == "a"] == [0, 1, 2, 3]
    assert [start.at for start in made if start.message.key == "b"] == [0, 0, 1, 1]


def test_a_leashed_key_waits_for_its_token() -> None:
    scenario = keyed(concurrency=2, a=KeyPlan(rate=0.5))
    made = starts(scenario, *of("a", 3, runtime=0.1), *of(None, 2, runtime=0.1))
    assert [start.at for start in made if start.message.key is None] == [0, 0.1]
    assert [start.at for start in made if start.message.key == "a"] == pytest.approx(
        [0, 2.25, 4.25]
    )


def test_the_order_is_that_of_the_tags() -> None:
    """The same starts as the class itself decides on, whatever arrives when."""
    random = Random(3)
    messages = []
    published = 0.0
    for _ in range(2000):
        published += random.expovariate(1.1)
        key = random.choice(("a", "b/1", "b/2", "c"))
        messages.append(Message(published, "jobs", "t", None, 1.0, key))
    made = starts(keyed(a=KeyPlan(2.0)), *messages)

    spread = Random("jobs")
    tags = TenantTags(lambda tenant: 2.0 if tenant == "a" else 1.0, lambda: 0.5 + spread.random())
    waiting: Counter[tuple[str, str]] = Counter()
    arriving = iter(messages)
    message = next(arriving, None)
    for start in made:
        while message is not None and message.published <= start.at:
            tenant, _, part = str(message.key).partition("/")
            tags.arrive(tenant, part)
            waiting[tenant, part] += 1
            message = next(arriving, None)
        first = tags.first()
        assert first is not None
        waiting[first] -= 1
        tags.serve(*first, 1.0, waiting[first] > 0)
        assert "/".join(filter(None, first)) == start.message.key


def test_options_of_keys_in_words() -> None:
    base = Scenario("recorded", queues={"jobs": Plan(usual=USUAL)})
    words = "x: jobs[acme].weight=5 jobs[a.b].rate=10/s jobs[*].max_in_flight=2"
    plan = parse_scenario(words, base).plan("jobs")
    assert plan.usual == KeyPlan(max_in_flight=2)
    assert plan.keys == {"acme": KeyPlan(5.0), "a.b": KeyPlan(rate=10.0)}
