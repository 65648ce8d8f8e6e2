"""`celery -A app fair doctor` on real brokers: each weakness is made, and found."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner
from click.testing import Result as Outcome
from kombu import Exchange, Queue, transport

from celery_fair import FairConsumerStep, NonRepeatableTask, install
from celery_fair.cli import fair
from celery_fair.operate.doctor.holding import consumer_timeout
from celery_fair.operate.errors import NoAnswerError
from celery_fair.operate.workers import Workers
from celery_fair.routing import floods
from tests.brokers import RabbitMQ, RedisServer, Space
from tests.keys.tenants import send
from tests.publishing import publish
from tests.test_permissions import commands
from tests.workers import StartWorker

QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture(autouse=True)
def _no_tasks_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("celery._state._on_app_finalizers", set())


def work() -> None:
    """Only its definition counts."""


@contextmanager
def app_on(url: str, fair_: bool = True, once: bool = True, **conf: Any) -> Iterator[Celery]:
    with Celery("shop", broker=url, set_as_current=False) as app:
        app.conf.update(conf)
        if fair_:
            install(app)
        if once:
            app.task(base=NonRepeatableTask, name="charge", shared=False)(work)
            app.task(base=NonRepeatableTask, ack="after", name="export", shared=False)(work)
        app.task(name="report", shared=False)(work)
        yield app


def outcome(app: Celery, *options: str) -> Outcome:
    context = CLIContext(app=app, no_color=True, workdir=None)
    return CliRunner().invoke(fair, ["doctor", *options], obj=context)


def findings(app: Celery) -> dict[str, dict[str, str]]:
    done = outcome(app, "--json", "--timeout", "0.3")
    assert done.stderr == "", done.exception
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    found = json.loads(done.stdout)
    levels = {finding["level"] for finding in found}
    assert done.exit_code == int("wrong" in levels)
    levels = {finding["level"] for finding in found if finding["topic"] != "workers that run"}
    assert outcome(app, "--strict", "--timeout", "0").exit_code == int(levels != {"ok"})
    for finding in found:
        assert finding["level"] == "ok" or finding["mend"]
    by_topic = {finding["topic"]: finding for finding in found}
    assert len(by_topic) == len(found)
    return by_topic


def test_all_is_well_on_rabbitmq(rabbitmq_space: Space, tmp_path: Path) -> None:
    queue = Queue("pay", routing_key="pay", queue_arguments=QUORUM)
    with app_on(
        rabbitmq_space.url,
        task_queues=[queue],
        task_default_queue="pay",
        task_time_limit=90,
        fair_queues={"pay": {"fetch": "pull"}},
        fair_ledger=f"sqlite:///{tmp_path}/ledger.db",
        fair_ledger_since="2026-05-31T14:00:00Z",
    ) as app:
        publish(rabbitmq_space.url, {"pay": 3}, queue_arguments=QUORUM)
        found = findings(app)
        silent = found.pop("workers that run")
        assert silent["level"] == "weak"
        assert "no worker has answered" in silent["text"]
        assert {finding["level"] for finding in found.values()} == {"ok"}
        assert found["broker"]["text"].startswith("RabbitMQ ")
        assert found["queue pay"]["text"] == "quorum queue, 3 messages, 0 consumers"
        assert found["task charge"]["text"] == "non-repeatable, acknowledged before it starts"
        assert found["task export"]["text"] == "non-repeatable, acknowledged after it has ended"
        assert "sqlite: complete since 20" in found["ledger"]["text"]
        assert "report" not in str(found)


def test_a_quorum_queue_that_drops(rabbitmq_space: Space) -> None:
    limited = QUORUM | {"x-delivery-limit": 5}
    letters = limited | {"x-dead-letter-exchange": "letters"}
    queues = [Queue("some", queue_arguments=limited), Queue("none", queue_arguments=letters)]
    with app_on(rabbitmq_space.url, task_queues=queues, task_default_queue="some") as app:
        for queue in queues:
            publish(rabbitmq_space.url, {queue.name: 1}, queue_arguments=queue.queue_arguments)
        found = findings(app)
    assert "returned more than 5 times is dropped" in found["queue some"]["text"]
    assert found["queue none"]["level"] == "ok"


def test_what_is_held_for_longer_than_rabbitmq_waits(rabbitmq_space: Space) -> None:
    """Half an hour; of which a message may wait for 750 seconds before it starts."""
    url = rabbitmq_space.url
    for limit, said in (
        (1049, None),
        (1051, "for longer than 1800 s"),
        (None, "a time_limit below 1050 s"),
    ):
        with app_on(url, task_time_limit=limit) as app:
            found = findings(app)
        about = [each for topic, each in found.items() if topic.startswith("consumer_timeout")]
        assert len(about) == 1
        assert about[0]["level"] == ("ok" if said is None else "weak")
        assert (said or "nothing is held") in about[0]["text"] + about[0]["mend"]
        assert "charge" not in about[0]["text"]


def test_the_queue_that_waits_least_counts() -> None:
    queues = [Queue("brief", queue_arguments={"x-consumer-timeout": 60_000}), Queue("usual")]
    with app_on("memory://", task_time_limit=100) as app:
        assert "for longer than 60 s" in consumer_timeout(app, queues).text
        assert consumer_timeout(app, queues[1:]).level == "ok"


@pytest.mark.parametrize(
    ("taken", "topic", "said"),
    [
        ((), "broker: rights", "may do what workers do"),
        (("+info",), "broker: persistence", "may not ask"),
        (("~bulk*",), "broker: rights", "EXISTS bulk"),
        (("~unacked*",), "broker: rights", "HSET unacked"),
        (("&/0.celery.pidbox",), "broker: rights", "PUBLISH /0.celery.pidbox"),
        (("~celery-fair:*",), "broker: rights", "HGETALL celery-fair:kept"),
    ],
)
def test_rights_on_redis(
    own_redis: RedisServer, taken: tuple[str, ...], topic: str, said: str
) -> None:
    """Those that the documentation names, less one; nothing is written by the question."""
    rules = [rule for rule in commands("redis-cli ACL SETUSER")["worker"] if rule not in taken]
    rules += [rule for rule in taken if rule.startswith("-")]
    own_redis.client.execute_command("ACL", "SETUSER", "worker", *rules)
    url = f"redis://worker:secret@127.0.0.1:{own_redis.port}/0"
    queues = {"interactive": {}, "bulk": {}}
    conf: dict[str, Any] = {"fair_queues": queues, "task_default_queue": "interactive"}
    with app_on(url, once=False, **conf) as app:
        found = findings(app)
    assert said in found[topic]["text"]
    assert ("secret" in str(found), "Traceback" in str(found)) == (False, False)
    assert own_redis.client.keys("[^_]*") == []


def test_weaknesses_on_rabbitmq(rabbitmq_space: Space) -> None:
    with app_on(rabbitmq_space.url, fair_queues={"pay": {}}, task_default_queue="other") as app:
        publish(rabbitmq_space.url, {"pay": 3, "dead-letters": 2})
        found = findings(app)
        assert found["queue pay"]["level"] == "weak"
        assert found["queue pay"]["text"].startswith("classic queue, 3 messages")
        assert found["queue other"]["text"] == "is not there yet; the first worker declares it"
        assert found["prefetch"]["level"] == "weak"
        assert "2 wait in queue dead-letters" in found["dead letters"]["text"]
        assert found["ledger"]["text"].startswith("none")
        assert "other" not in rabbitmq_space.depths(), "a doctor changes nothing"


def test_weaknesses_on_redis(redis_space: Space) -> None:
    transport = {"visibility_timeout": 60}
    with app_on(
        redis_space.url,
        task_time_limit=90,
        task_acks_late=True,
        broker_transport_options=transport,
        fair_ledger=redis_space.url,
    ) as app:
        publish(redis_space.url, {"dead-letters": 2, "celery": 1})
        found = findings(app)
        assert found["broker"]["text"].startswith("Redis ")
        assert found["broker: persistence"]["level"] == "weak"
        assert found["ledger: persistence"]["level"] == "weak"
        assert found["ledger: since"]["level"] == found["prefetch"]["level"] == "weak"
        assert found["visibility timeout"]["text"].endswith("export, report")
        assert "charge" not in found["visibility timeout"]["text"]
        assert found["acks_late"]["text"].endswith(": report")
        assert found["queue celery"]["text"] == "1 messages"
        assert found["dead letters"]["level"] == "weak"


def test_a_durable_redis(own_redis: RedisServer) -> None:
    since = "2026-05-31T14:00:00Z"
    ledger = {"fair_ledger": own_redis.url(), "fair_ledger_since": since}
    with app_on(own_redis.url(), task_time_limit=90, **ledger) as app:
        weak = {each["topic"] for each in findings(app).values() if each["level"] != "ok"}
        assert weak == {"workers that run"}
        own_redis.client.config_set("maxmemory", 10**9)
        own_redis.client.config_set("maxmemory-policy", "allkeys-lru")
        assert findings(app)["broker: memory"]["level"] == "wrong"
        assert findings(app)["ledger: memory"]["level"] == "wrong"


def test_a_redis_that_is_full(own_redis: RedisServer) -> None:
    """Nobody can ask workers there: they would have to be written to."""
    publish(own_redis.url(), {"celery": 3})
    own_redis.client.config_set("maxmemory", 1)
    with app_on(own_redis.url()) as app:
        found = findings(app)
        assert found["queue celery"]["text"] == "3 messages"
        assert found["broker: memory"]["level"] == "wrong"
        assert "work it off" in found["broker: memory"]["mend"]
        with pytest.raises(NoAnswerError, match="is full, at its maxmemory, and takes no fair_st"):
            Workers(app, (), 1.0).status()
        own_redis.client.config_set("maxmemory", 10**9)
        assert findings(app)["broker: memory"]["level"] == "ok"


def test_an_app_that_is_not_fair(redis_space: Space) -> None:
    with app_on(redis_space.url, fair_=False, task_always_eager=True) as app:
        found = findings(app)
        assert found["bootstep"]["level"] == found["task_always_eager"]["level"] == "wrong"
        app.steps["consumer"].add(FairConsumerStep)
        bootstep = findings(app)["bootstep"]
        assert (bootstep["level"], "is lost" in bootstep["text"]) == ("weak", False)
        app.conf.fair_keys = {"jobs": {}}
        assert "a key that they give, by fair_key=…, is lost" in findings(app)["bootstep"]["text"]


def test_no_task_is_non_repeatable(rabbitmq_space: Space) -> None:
    with app_on(rabbitmq_space.url, once=False) as app:
        publish(rabbitmq_space.url, {"celery": 1})
        found = findings(app)
        assert found["queue celery"]["level"] == "ok"
        assert "none is non-repeatable" in found["tasks"]["text"]
        assert "ledger" not in found


def test_settings_that_no_worker_takes(redis_space: Space) -> None:
    with app_on(redis_space.url, fair_queues={"pay": {"quantum": -1}}) as app:
        found = findings(app)
        assert found.keys() == {"settings"}
        assert "quantum" in found["settings"]["text"]


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"fair_queues": {"pay": {"exclusive": True}}}, "['exclusive']: this broker (redis)"),
        ({"fair_partitions": {"o": {"partitions": 2}}}, "fair_partitions needs fair_group_store"),
        (
            {
                "fair_partitions": {"o": {"partitions": 2, "via": "exchange"}},
                "fair_group_store": "memory://doctor",
            },
            "this broker (redis) has no exchanges",
        ),
        (
            {"fair_partitions": {"o": {"partitions": 2}}, "fair_group_store": "sqlite://"},
            "a database in memory",
        ),
    ],
)
def test_what_workers_refuse_there(redis_space: Space, conf: dict[str, Any], said: str) -> None:
    with app_on(redis_space.url, **conf) as app:
        found = findings(app)
        assert found["workers"]["level"] == "wrong"
        assert said in found["workers"]["text"]


def test_what_does_not_answer() -> None:
    ledger = "redis://:secret@127.0.0.1:1/0"
    with app_on("amqp://guest:secret@127.0.0.1:1//", fair_ledger=ledger) as app:
        found = findings(app)
        assert found["broker"]["level"] == found["ledger"]["level"] == "wrong"
        assert "secret" not in str(found)


@pytest.mark.parametrize("command", ["doctor", "status", "dead-letters list"])
def test_what_kombu_cannot_even_begin_with(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It imports the client, and reads the URL, before there is anything to connect."""
    monkeypatch.setitem(sys.modules, "kombu.transport.redis", None)
    monkeypatch.delitem(transport._transport_cache, "redis", raising=False)
    for url, said in (
        ("redis://:secret@127.0.0.1:1/0", "pip install 'celery-fair[redis]'"),
        ("confluentkafka://:secret@host", "the client library that kombu needs there"),
        ("amqp://me:p/secret@host/0", "special characters"),
        ("nothing://me:secret@host", "begins with amqp://, redis:// or sqs://"),
    ):
        with app_on(url, once=False) as app:
            context = CLIContext(app=app, no_color=True, workdir=None)
            done = CliRunner().invoke(fair, command.split(), obj=context)
        text = " ".join(done.output.split())
        assert (done.exit_code, type(done.exception)) == (1, SystemExit)
        assert said in text
        assert "secret" not in text


def test_a_user_with_too_few_rights(rabbitmq: RabbitMQ, rabbitmq_space: Space) -> None:
    """Who may read a queue may not declare it, nor publish; nothing is changed by the questions."""
    with app_on(rabbitmq_space.url, once=False, task_default_queue="bulk") as app:
        publish(rabbitmq_space.url, {"bulk": 3})
        found = findings(app)
        assert found["dead letters"]["level"] == "ok"
        whole = outcome(app).exit_code
    reader, nobody = (f"{name}{os.getpid()}" for name in ("reader", "nobody"))
    before = rabbitmq_space.depths()
    url = rabbitmq.add_user(reader, rabbitmq_space.place, "^$", "^$", "^bulk$")
    with app_on(url, once=False, task_default_queue="bulk") as app:
        found, ended = findings(app), outcome(app).exit_code
    assert (whole, ended) == (0, 1)
    for each, lacks in (("bulk", "configure write"), ("dead-letters", "configure read write")):
        said = found[f"queue {each}"]
        assert said["level"] == "wrong"
        assert [word for word in ("configure", "read", "write") if f"{word} (" in said["text"]] == (
            lacks.split()
        )
        assert f"set_permissions -p {rabbitmq_space.place} {reader}" in said["mend"]
    assert found["workers that run"]["level"] == "wrong"
    assert "remote control" in found["workers that run"]["mend"]
    url = rabbitmq.add_user(nobody, rabbitmq_space.place, "^$", ".*", ".*")
    declared = [Queue("bulk", Exchange("bulk"), "bulk", no_declare=True)]
    with app_on(url, once=False, task_queues=declared) as app:
        assert findings(app)["queue bulk"]["level"] == "ok"
    assert rabbitmq_space.depths() == before


def test_the_store_of_groups(redis_space: Space) -> None:
    parts: dict[str, Any] = {"fair_partitions": {"orders": {"partitions": 2}}}
    for store, level in ((redis_space.url, "ok"), ("redis://127.0.0.1:1/0", "wrong")):
        with app_on(redis_space.url, once=False, fair_group_store=store, **parts) as app:
            assert findings(app)["fair_group_store"]["level"] == level


@pytest.mark.parametrize("partitions", [{}, {"orders": {"partitions": 2}}])
def test_what_is_where_no_worker_looks_any_more(
    space: Space, tmp_path: Path, partitions: dict[str, Any]
) -> None:
    """There were four partitions, and another name of dead letters."""
    for queue in ("orders.0", "orders.1", "orders.2", "orders.3", "dead-letters"):
        publish(space.url, {queue: 3 if queue == "orders.3" else 0})
    publish(space.url, {"orders.1": 2, "dead-letters": 1})
    conf: dict[str, Any] = {"fair_dead_letters": "letters", "task_default_queue": "orders"}
    conf |= {"fair_group_store": f"sqlite:///{tmp_path}/groups.db"} if partitions else {}
    before = set(space.depths())
    with app_on(space.url, once=False, fair_partitions=partitions, **conf) as app:
        said = findings(app)["queues"]["text"]
    assert "orders.3 (3)" in said
    assert "dead-letters (1)" in said
    assert ("orders.1 (2)" in said) is (not partitions)
    assert set(space.depths()) == before  # nothing is made


def test_queues_that_are_shared_by_key(
    rabbitmq_space: Space, redis_space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floods, "_RATE", 1e-6)  # a flood has two messages in front
    keyed: dict[str, Any] = {"fair_keys": {"jobs": {}}, "task_default_queue": "jobs"}
    with app_on(redis_space.url, once=False, **keyed) as app:
        send(app, "a", 32)
        assert findings(app)["queue jobs"]["text"] == "32 messages"
    keyed["broker_transport_options"] = {"confirm_publish": True}
    with app_on(rabbitmq_space.url, once=False, **keyed) as app:
        send(app, "a", 32)
        found = findings(app)
        assert found["queue jobs"]["text"] == "classic queue, 32 messages, 30 of them in lanes"
        assert found["keys of jobs"]["level"] == "ok"
        assert "each worker keeps the keys' tags itself" in found["fair_key_store"]["text"]
    assert not [name for name in rabbitmq_space.depths() if name.endswith(".doctor")]
    with app_on(rabbitmq_space.url, once=False, fair_key_store=redis_space.url, **keyed) as app:
        assert findings(app)["fair_key_store"]["level"] == "ok"
    with app_on(rabbitmq_space.url, False, fair_key_store="redis://localhost:1", **keyed) as app:
        assert findings(app)["fair_key_store"]["level"] == "wrong"


@pytest.mark.either_broker
def test_workers_that_run(space: Space, start_worker: StartWorker) -> None:
    """One of Celery's own, and one with other settings."""
    options: dict[str, Any] = {"queues": ["jobs"], "pool": "threads", "quiet": False}
    keyed: dict[str, Any] = {"fair_keys": {"jobs": {}}}
    jobs = {"quantum": 7, "target": "95% < 1ms"}
    workers = (
        start_worker(space, fair=False, **options),
        start_worker(space, conf={"fair_queues": {"jobs": jobs}}, **options),
        start_worker(space, conf=keyed, **options),
    )
    assert all(worker.inspect("ping") for worker in workers)  # hears commands, on Redis later
    own, other, same = (worker.hostname for worker in workers)
    with app_on(space.url, once=False, task_default_queue="jobs", **keyed) as app:
        done = outcome(app, "--json", "--timeout", "10")
    found = {each["topic"]: each for each in json.loads(done.stdout)}
    texts = {topic: each["text"] for topic, each in found.items() if topic.startswith("worker")}
    fair_ones = ", ".join(sorted([other, same]))
    assert texts.pop("workers that run") == f"fair, and answering: {fair_ones}"
    said = texts.pop(f"worker {own}")
    assert "Celery's own, and consumes jobs" in said
    assert "it sees neither lanes nor what was sorted" in said
    assert "queues without workers" not in found
    said = texts.pop(f"worker {other}")
    assert "it does not share jobs by key; jobs has target 95% < 1ms, for None here" in said
    assert "jobs has quantum 7, for 1 here" in said
    assert not texts


def test_queues_that_no_worker_consumes(redis_space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(redis_space, queues=["jobs"], pool="threads", quiet=False)
    assert worker.inspect("ping")  # hears commands, later than it is ready
    conf: dict[str, Any] = {"task_queues": [Queue("jobs"), Queue("mail", routing_key="mail")]}
    with app_on(redis_space.url, once=False, **conf) as app:
        done = outcome(app, "--json", "--timeout", "10")
    found = {each["topic"]: each for each in json.loads(done.stdout)}
    assert "none consumes mail:" in found["queues without workers"]["text"]


def test_as_text(redis_space: Space) -> None:
    with app_on(redis_space.url, task_acks_late=True) as app:
        text = outcome(app).stdout
        assert max(map(len, text.splitlines())) <= 100
        assert "→ " in text
        assert text.splitlines()[-1].endswith(" wrong")
        print(text)


def test_help() -> None:
    text = CliRunner().invoke(fair, ["doctor", "--help"]).stdout
    assert "celery -A shop fair doctor" in text
