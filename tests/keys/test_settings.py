"""What can be said in ``fair_keys``, and what is refused, with what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery
from celery.exceptions import ImproperlyConfigured

from celery_fair.settings import Settings


def settings(**conf: Any) -> Settings:
    app = Celery("shop", broker="redis://", set_as_current=False)
    app.conf.update(conf)
    return Settings.of(app)


def test_a_queue_of_keys() -> None:
    keys = {"acme": {"weight": 5}, 12: {}, b"x/y": {"weight": 0.5}}
    found = settings(fair_keys={"jobs": {"weight": 2, "keys": keys, "key": "tests.shares.amounts"}})
    queue = found.keys["jobs"]
    assert queue.weight == 2
    assert queue.weights == {"acme": 5, "x%2Fy": 0.5}
    assert callable(queue.key)
    assert found.queue("jobs").fetch == "pull"


def test_what_the_queue_has_besides() -> None:
    found = settings(
        fair_keys={"jobs": {}},
        fair_queues={"jobs": {"quantum": 3, "rate": "5/s", "max_in_flight": 2}},
    )
    assert found.queue("jobs").quantum == 3
    assert found.queue("jobs").max_in_flight == 2


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"fair_keys": ["jobs"]}, "fair_keys must be a mapping"),
    ({"fair_keys": {"": {}}}, "'' is no queue name"),
    (
        {"fair_keys": {"jobs": None}},
        "must be a mapping of options (burst, key, keys, lanes, lease, max_in_flight, rate",
    ),
    ({"fair_keys": {"jobs": {"lanes": 0}}}, "['lanes'] must be a whole number from 1 to 10000"),
    ({"fair_keys": {"jobs": {"lane": 3}}}, "unknown option 'lane'; there are: burst, key,"),
    ({"fair_keys": {"jobs": {"key": 5}}}, "must be a callable"),
    ({"fair_keys": {"jobs": {"key": "no.such.thing"}}}, "cannot import 'no.such.thing'"),
    ({"fair_keys": {"jobs": {"key": ".such.thing"}}}, "['key']: cannot import '.such.thing'"),
    ({"fair_keys": {"jobs": {"weight": 0}}}, "must be a number from 1e-06 to 1e+06, not 0"),
    ({"fair_keys": {"jobs": {"weight": float("nan")}}}, "must be a number from"),
    ({"fair_keys": {"jobs": {"weight": 1e-12}}}, "must be a number from"),
    ({"fair_keys": {"jobs": {"weight": True}}}, "must be a number from"),
    ({"fair_keys": {"jobs": {"weight": "5"}}}, "must be a number from"),
    ({"fair_keys": {"jobs": {"max_in_flight": 0}}}, "must be a whole number from 1 to 65535"),
    ({"fair_keys": {"jobs": {"rate": 0}}}, "a rate is a number per second above zero"),
    ({"fair_keys": {"jobs": {"burst": 0}}}, "must be a whole number from 1 to 1000000"),
    ({"fair_keys": {"jobs": {"burst": 5}}}, "fair_keys['jobs']: 'burst' needs a 'rate'"),
    ({"fair_keys": {"jobs": {"keys": {1: {"burst": 5}}}}}, "['jobs']: 'burst' needs a 'rate'"),
    ({"fair_keys": {"jobs": {"keys": {1: {}, "1": {}}}}}, "'1' is the tenant '1' a second time"),
    ({"fair_keys": {"jobs": {"lease": 0}}}, "must be a finite number of seconds above zero"),
    ({"fair_keys": {"jobs": {"keys": {"": {}}}}}, "a key must not be empty"),
    ({"fair_keys": {"jobs": {"keys": {None: {}}}}}, "a key is an integer, a text"),
    ({"fair_keys": {"jobs": {"keys": {("a", "b"): {}}}}}, "is a part of the tenant 'a'"),
    ({"fair_keys": {"jobs": {"keys": {"x" * 300: {}}}}}, "a key has at most 255 bytes"),
    (
        {"fair_keys": {"jobs": {"keys": {"a": {"quantum": 5}}}}},
        "unknown option 'quantum'; there are: burst, max_in_flight, rate, weight",
    ),
    (
        {"fair_keys": {"jobs": {}}, "fair_queues": {"jobs": {"exclusive": True}}},
        "fair_queues['jobs']: 'exclusive' belongs to a subscription",
    ),
    (
        {"fair_keys": {"jobs": {}}, "fair_queues": {"jobs": {"prefetch": 5}}},
        "fair_queues['jobs']: 'prefetch' belongs to a subscription",
    ),
    (
        {"fair_keys": {"jobs": {}}, "fair_queues": {"jobs": {"fetch": "push"}}},
        "a queue of fair_keys is pulled from",
    ),
    (
        {
            "fair_keys": {"jobs": {}},
            "fair_partitions": {"jobs": {"partitions": 2}},
            "fair_group_store": "redis://",
        },
        "'jobs' has partitions; a queue is shared by key, or has them",
    ),
    (
        {"fair_keys": {"jobs": {}}, "fair_logical_queues": {"jobs": {"native": True}}},
        "'jobs' has levels",
    ),
]


@pytest.mark.parametrize(("conf", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_refused(conf: dict[str, Any], said: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        settings(**conf)
    assert said in str(refused.value)
