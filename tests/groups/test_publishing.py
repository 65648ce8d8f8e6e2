"""Where a message with a key goes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery
from celery.exceptions import ImproperlyConfigured

from celery_fair import install
from celery_fair.core.groups.assignment import partition_of
from celery_fair.settings import Settings
from tests.brokers import Space

PARTITIONS = {"customers": {"partitions": 4}}


def update(customer: int, amount: int = 0) -> None:
    """Nobody runs it."""


def by_customer(customer: int, amount: int = 0) -> int:
    return customer


def app_with(url: str = "memory://", **conf: Any) -> Celery:
    app = Celery("keys", broker=url, set_as_current=False)
    app.conf.update({"fair_partitions": PARTITIONS, "task_ignore_result": True} | conf)
    app.task(name="update", shared=False)(update)
    return install(app)


def sent_to(app: Celery, *args: Any, **options: Any) -> str:
    """The queue in which a message is found."""
    app.tasks["update"].apply_async(*args, **options)
    with app.connection_for_read() as connection:
        for queue in Settings.of(app).queues:
            bound = app.amqp.queues[queue](connection.default_channel)
            bound.declare()
            message = bound.get()
            if message is not None:
                message.ack()
                return queue
    raise AssertionError("it is nowhere")


def test_key_decides(space: Space) -> None:
    by_argument = {"customers": {"partitions": 4, "key": by_customer}}
    app = app_with(space.url, task_routes={"update": "customers"})
    keyed = app_with(space.url, fair_partitions=by_argument)
    older = app_with(space.url, fair_partitions=by_argument, task_protocol=1)
    for key in (42, "Ökonom", b"\xff", -1):
        expected = f"customers.{partition_of(key, 4)}"
        assert sent_to(app, (1,), partition_key=key) == expected
        assert sent_to(app, (1,), queue="customers", partition_key=key) == expected
    for each in (keyed, older):
        assert sent_to(each, (42,), queue="customers") == f"customers.{partition_of(42, 4)}"
    expected = f"customers.{partition_of(7, 4)}"
    assert sent_to(keyed, (42,), queue="customers", partition_key=7) == expected
    assert sent_to(app, (1,), queue="customers.3") == "customers.3"


@pytest.mark.parametrize("via", ["hash", "exchange"])
@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({}, ValueError, "there is no partition key; publish with partition_key=…, or set fair_"),
        ({"partition_key": ""}, ValueError, "must have 1 to 65536 bytes, not 0"),
        ({"partition_key": "x" * 70_000}, ValueError, "must have 1 to 65536 bytes, not 70000"),
        ({"partition_key": ["a"]}, TypeError, "must be an integer, a text or bytes, not list"),
        ({"partition_key": 1.5}, TypeError, "must be an integer, a text or bytes, not float"),
        ({"partition_key": 1, "queue": "other"}, ValueError, "'other' is no partitioned queue"),
    ],
)
def test_key_is_refused(
    options: dict[str, Any], error: type[Exception], said: str, via: str
) -> None:
    app = app_with(fair_partitions={"customers": {"partitions": 4, "via": via}})
    with pytest.raises(error, match=said):
        app.tasks["update"].apply_async((1,), **{"queue": "customers"} | options)


@pytest.mark.parametrize("via", ["hash", "exchange"])
@pytest.mark.parametrize(
    ("returned", "error", "said"),
    [
        (None, ValueError, r"\['key'\], which returned None"),
        ({"id": 1}, TypeError, "update to the partitioned queue 'customers': .* not dict"),
        ("x" * 70_000, ValueError, "must have 1 to 65536 bytes, not 70000"),
    ],
)
def test_key_of_arguments_is_refused(
    returned: Any, error: type[Exception], said: str, via: str
) -> None:
    options = {"partitions": 4, "via": via, "key": lambda customer: returned}
    app = app_with(fair_partitions={"customers": options})
    with pytest.raises(error, match=said):
        app.tasks["update"].apply_async((1,), queue="customers")


BY_EXCHANGE = {"customers": {"partitions": 4, "via": "exchange"}}


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"fair_partitions": {"customers": {"partitions": 0}}}, "a whole number from 1 to 10000"),
        ({"fair_group_store": None}, "fair_partitions needs fair_group_store"),
        ({"fair_group_store": "nonsense://u:secret@x"}, "'nonsense://…': this is neither Redis"),
        ({"fair_group_store": "redis://127.0.0.1:x/"}, "fair_group_store: no client of Redis"),
        ({"fair_group_store": "postgresql+psycopg://127.0.0.1:x/"}, "fair_group_store: "),
        ({"fair_partitions": BY_EXCHANGE}, r"\['via'\] = 'exchange': this broker \(memory\)"),
    ],
)
def test_worker_does_not_start(
    conf: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what waits for it goes on waiting."""
    # A worker forbids its process to wait for results: this one is not to be one for good.
    monkeypatch.setattr("celery._state._task_join_will_block", False)
    publisher = app_with()
    publisher.tasks["update"].apply_async((1,), queue="customers.1")
    worker = app_with(**{"fair_group_store": "redis://127.0.0.1:1/0"} | conf)
    with pytest.raises(ImproperlyConfigured, match=said) as refused:
        worker.WorkController(pool="solo", hostname="refused@here")
    assert "secret" not in str(refused.value)
    with publisher.connection_for_read() as connection:
        queue = publisher.amqp.queues["customers.1"](connection.default_channel)
        assert queue.get(no_ack=True) is not None
        assert queue.get(no_ack=True) is None


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"fair_partitions": {"c": {"partitions": 0}}}, r"\['partitions'\] must be a whole number"),
        ({"fair_partitions": {"c": {"partitions": 1.5}}}, "must be a whole number from 1 to 10000"),
        ({"fair_partitions": {"c": {"partitions": 10_001}}}, "must be a whole number from 1"),
        ({"fair_partitions": {"c": {"group": "g"}}}, "must have 'partitions', their number"),
        ({"fair_partitions": {"c": 4}}, "must be a mapping of options"),
        ({"fair_partitions": {"c": {"partitions": 1, "to": "x"}}}, "unknown option 'to'"),
        ({"fair_partitions": {"c": {"partitions": 1, "via": "x"}}}, "one of 'hash', 'exchange'"),
        ({"fair_partitions": {"c": {"partitions": 1, "key": 7}}}, "must be a callable"),
        ({"fair_partitions": {"c": {"partitions": 1, "key": "a.b"}}}, "cannot import 'a.b'"),
        ({"fair_queues": {"customers.1": {}}}, "'customers.1' is a partition; give options to"),
        ({"fair_logical_queues": {"customers": {"levels": {"a": [0, 9]}}}}, "a logical queue"),
        ({"fair_group_store": "nowhere"}, "fair_group_store must be a URL"),
    ],
)
def test_settings_are_refused(conf: dict[str, Any], said: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=said):
        Settings.of(app_with(**conf))


def test_options_of_partitions() -> None:
    app = app_with(fair_queues={"customers": {"quantum": 3, "fetch": "push"}, "other": {}})
    settings = Settings.of(app)
    assert settings.queues.keys() == {"other", *(f"customers.{n}" for n in range(4))}
    options = settings.queue("customers.2")
    assert (options.quantum, options.max_in_flight, options.exclusive) == (3, 1, False)
    assert settings.fenced().queue("customers.2").exclusive is True
    pulled = Settings.of(app_with()).fenced().queue("customers.0")
    assert (pulled.fetch, pulled.exclusive) == ("pull", False)
