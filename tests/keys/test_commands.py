"""``fair keys``, as people type it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from celery_fair.brokers.keyed.lists import Backlog, KeyedLists
from celery_fair.operate.keys.keys import rows_of
from celery_fair.settings.keys import KeyLimits
from tests.brokers import Space
from tests.eventlog.reading import records
from tests.integration.gate import closing_gate
from tests.keys.conftest import Run
from tests.keys.tenants import KEYED, QUEUE, Tenants, left, publisher, send
from tests.waiting import wait_equal
from tests.workers import StartWorker


def test_what_waits_is_listed(
    space: Space, start_worker: StartWorker, tenants: Tenants, run: Run
) -> None:
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    with closing_gate() as gate, closing_gate() as next_gate:
        tenants.publish({"": 1}, "hold", [str(gate.path)])
        worker.records.started.wait(1)
        ids = tenants.publish({"acme/1": 30, "acme/2": 10, "globex": 6, "": 3})
        said = "jobs: 0 keys have messages waiting, and 49 messages are unsorted yet"
        assert run("keys", "list", QUEUE).output.splitlines() == [said]

        tenants.publish({"last": 1}, "hold", [str(next_gate.path)])
        assert run("keys", "set", QUEUE, "globex", "weight=2").exit_code == 0
        assert run("keys", "set", QUEUE, "last", "weight=1e6").exit_code == 0
        gate.open()
        worker.records.started.wait_ids(list(tenants.of)[-1:])
        document = json.loads(run("keys", "list", QUEUE, "--json").output)
        rows = {row["tenant"]: row for row in document["top"]}
        assert (document["keys"], document["unsorted"]) == (3, 0)
        assert rows["acme"]["parts"] == 2
        assert {name: row["weight"] for name, row in rows.items()} == {
            "acme": 1,
            "globex": 2,
            "": 1,
        }
        assert rows["globex"]["target"] == pytest.approx(0.5)
        assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
        still = sum(row["waiting"] for row in document["top"])
        assert still + len(worker.records.started) == 51
        head, *lines = run("keys", "list", QUEUE, "--top", "2").output.splitlines()[1:]
        heads = "key weight fair share started running waiting parts oldest held"
        assert head.split() == heads.split()
        assert [line.split()[0] for line in lines] == ["acme", "globex"]
        shown = dict(zip(head.split(), lines[0].split(), strict=False))
        assert (shown["key"], shown["started"]) == ("acme", str(rows["acme"]["started"]))
    worker.records.started.wait_once(ids)


def test_who_has_nothing_waiting_is_due_nothing() -> None:
    """On RabbitMQ those are told of, too, who were served and have nothing any more."""
    rest: dict[str, Any] = dict.fromkeys(("parts", "ahead", "running"), 0)
    rest |= {"limits": KeyLimits(), "held": None, "before": None}
    found = [Backlog(name, 1.0, n, started=5, **rest) for name, n in (("a", 9), ("b", 1), ("c", 0))]
    rows = {row["tenant"]: row for row in rows_of(found, 20)}
    assert {name: row["target"] for name, row in rows.items()} == {"a": 0.5, "b": 0.5, "c": 0.0}
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)


def test_a_weight_that_is_set_reaches_what_waits(
    space: Space, start_worker: StartWorker, tenants: Tenants, run: Run, tmp_path: Path
) -> None:
    ids = tenants.publish({"a": 600, "b": 600}, "nap", (0.002,))
    log = tmp_path / "log"
    conf = KEYED | {"fair_event_log": str(log)}
    worker = start_worker(space, queues=[QUEUE], conf=conf, wait=False)
    worker.records.started.wait(50)
    assert run("keys", "set", QUEUE, "a", "weight=4").output == "a has weight=4 in jobs\n"
    since = len(worker.records.started)
    worker.records.started.wait_once(ids)
    counts = Counter(tenants.started(worker.records.started)[since + 20 : since + 320])
    assert counts["a"] == pytest.approx(240, abs=30)
    weights = lambda: [r["key_weights"] for r in records(log, "settings")]  # noqa: E731
    wait_equal(weights, [{}, {"a": 4}])


def test_the_way_out(space: Space, start_worker: StartWorker, tenants: Tenants, run: Run) -> None:
    """To workers that know nothing of keys."""
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    with closing_gate() as gate:
        tenants.publish({"held": 1}, "hold", [str(gate.path)])
        worker.records.started.wait(1)
        ids = tenants.publish({"a": 300, "b/1": 100, "b/2": 100})
        worker.sigterm()
    assert worker.wait() == 0
    shown = json.loads(run("keys", "list", QUEUE, "--json").output)
    assert shown["unsorted"] + sum(row["waiting"] for row in shown["top"]) == 500
    assert run("keys", "merge", QUEUE).exit_code == 0
    assert left(space) == 500
    plain = start_worker(space, queues=[QUEUE], fair=False)
    plain.records.started.wait_once(ids)


def test_the_way_out_ends_while_others_publish(
    space: Space, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They put messages into their keys' lists as fast as they are taken out."""
    merge, times = KeyedLists.merge, 0
    with publisher(space.url) as app:

        def beside_a_publisher(lists: KeyedLists) -> int:
            nonlocal times
            times += 1
            assert times < 50, "it does not end"
            merged = merge(lists)
            send(app, "a", 3)
            return merged

        send(app, "a", 250)
        monkeypatch.setattr(KeyedLists, "merge", beside_a_publisher)
        merged = run("keys", "merge", QUEUE)
    assert merged.exit_code == 1
    assert " messages are back in jobs\n" in merged.stdout
    assert "\n3 wait in keys' lists again: workers" in merged.stdout
    assert left(space) == 256


def test_a_backlog_is_dropped_and_had_back(
    space: Space, start_worker: StartWorker, tenants: Tenants, run: Run
) -> None:
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    with closing_gate() as gate:
        tenants.publish({"held": 1}, "hold", [str(gate.path)])
        worker.records.started.wait(1)
        kept = tenants.publish({"b": 50, "a/2": 20})
        dropped = tenants.publish({"a/1": 350})
        urgent = {"headers": {"x-fair-key": "a/1"}, "priority": 9}
        dropped.append(worker.client.send_task("noop", [0], queue=QUEUE, **urgent).id)
        assert run("keys", "drop", QUEUE, "a/1", "--dry-run").output == (
            "351 messages of a/1 in jobs wait\n"
        )
        assert "say --yes, or --dry-run to look" in run("keys", "drop", QUEUE, "a/1").output
        found = json.loads(run("keys", "drop", QUEUE, "a/1", "--yes", "--json").stdout)
        assert found == {"queue": QUEUE, "key": "a/1", "waiting": 351, "dropped": 351, "left": 0}
        rows = {
            row["tenant"]: row
            for row in json.loads(run("keys", "list", QUEUE, "--json").stdout)["top"]
        }
        assert {name: row["waiting"] for name, row in rows.items()} == {"a": 20, "b": 50}
        assert run("keys", "drop", QUEUE, "a", "--yes", "--json").exit_code == 0
        assert run("keys", "drop", QUEUE, "a", "--yes").output == "0 messages of a in jobs wait\n"
        gate.open()
        worker.records.started.wait_once(kept[:50])
        assert len(worker.records.started) == 51
    replayed = run("dead-letters", "replay", "--all", "--reason", "dropped", "--json")
    assert len(json.loads(replayed.stdout)["replayed"]) == 371
    worker.records.started.wait_once([*dropped, *kept])
    assert len(worker.records.started) == 1 + len(kept) + 351 == 422


def test_what_is_no_message_can_be_dropped(space: Space, tenants: Tenants, run: Run) -> None:
    with Redis.from_url(space.url) as redis:
        redis.lpush(QUEUE, "no json", '{"headers": {"x-fair-key": "a"}}')
    assert json.loads(run("keys", "drop", QUEUE, "a", "--yes", "--json").stdout)["dropped"] == 1
    assert (
        json.loads(run("keys", "drop", QUEUE, "--no-key", "--yes", "--json").stdout)["dropped"] == 1
    )
    letters = json.loads(run("dead-letters", "list", "--json").stdout)
    assert len(letters) == 2


def test_a_backlog_is_deleted(space: Space, tenants: Tenants, run: Run) -> None:
    """One key's, and then all, sorted or not."""
    urgent = {"headers": {"x-fair-key": "a/1"}, "priority": 9}
    with publisher(space.url) as app:
        app.send_task("noop", [0], queue=QUEUE, **urgent)
    tenants.publish({"a/1": 350, "a/2": 10, "b": 20, "": 3})
    assert "say --yes, or --dry-run to look" in run("keys", "purge", QUEUE, "a/1").output
    found = json.loads(run("keys", "purge", QUEUE, "a/1", "--yes", "--json").stdout)
    assert found == {"queue": QUEUE, "key": "a/1", "waiting": 351, "purged": 351, "left": 0}
    every = ("keys", "purge", QUEUE, "--all")
    assert run(*every, "--dry-run").output == "33 messages of jobs wait\n"
    tenants.publish({"c": 2})
    assert run(*every, "--yes").output == "35 messages of jobs are purged\n"
    assert run(*every, "--yes").output == "0 messages of jobs wait\n"
    assert left(space) == 0
    assert json.loads(run("dead-letters", "list", "--json").stdout) == []
    with Redis.from_url(space.url) as redis:
        assert not [key for key in redis.keys("*") if b":lane:" in key or b"purged" in key]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["keys", "purge", QUEUE, "a", "--all", "--yes"], "leave KEY and --no-key out"),
        (["keys", "purge", QUEUE, "--yes"], "name a KEY, or say --no-key"),
        (["keys", "list", "mail"], "'mail' is no queue of fair_keys; there are: jobs"),
        (["keys", "set", "mail", "a", "weight=1"], "'mail' is no queue of fair_keys"),
        (["keys", "set", QUEUE, "a/b", "weight=1"], "'a/b' is a part of 'a'"),
        (["keys", "pause", QUEUE, "a/b"], "'a/b' is a part of 'a'; a tenant is paused as a whole"),
        (["keys", "set", QUEUE, "a"], "such as weight=5 or max_in_flight=20, or else --reset"),
        (["keys", "set", QUEUE, "a", "weight"], "'weight' is not option=value"),
        (["keys", "set", QUEUE, "a", "burst=1", "burst=2"], "'burst' is given twice"),
        (["keys", "set", QUEUE, "a", "quantum=1"], "there are: burst, max_in_flight, rate"),
        (
            ["keys", "set", QUEUE, "a", "weight=x"],
            "fair_keys['jobs']['keys'][…]['weight'] must be a number from 1e-06 to 1e+06",
        ),
        (["keys", "set", QUEUE, "a", "weight=0"], "['weight'] must be a number"),
        (["keys", "set", QUEUE, "a", "weight=nan"], "['weight'] must be a number"),
        (["keys", "set", QUEUE, "a", "weight=1e-12"], "['weight'] must be a number"),
        (["keys", "set", QUEUE, "a", "weight=none"], "['weight'] must be a number"),
        (["keys", "set", QUEUE, "a", "max_in_flight=0"], "must be a whole number from 1 to 65535"),
        (["keys", "set", QUEUE, "a", "rate=fast"], "a rate is a number per second above zero"),
        (["keys", "set", QUEUE, "a", "burst=0"], "must be a whole number from 1 to 1000000"),
        (["keys", "set", QUEUE, "a", "weight=1", "--reset"], "or else --reset"),
        *[
            ([*command, key], f"KEY is {key!r}, in which a name is empty")
            for command in (
                ["keys", "drop", QUEUE, "--yes"],
                ["keys", "pause", QUEUE],
                ["keys", "show", QUEUE],
            )
            for key in ("", "/7", "a/")
        ],
        (["keys", "set", QUEUE, "", "weight=5"], "messages that have no key are --no-key"),
        (["keys", "drop", QUEUE, "a", "--no-key"], "name a KEY, or say --no-key"),
        (["keys", "drop", QUEUE], "name a KEY, or say --no-key"),
    ],
)
def test_what_is_refused(run: Run, words: list[str], said: str) -> None:
    found = run(*words)
    assert found.exit_code == 2
    assert said in " ".join(found.output.split())


def test_who_has_no_key_is_told_from_who_is_called_like_nobody(tenants: Tenants, run: Run) -> None:
    ids = tenants.publish({"": 3, "-": 1, "–": 1, "(no key)": 1})
    assert len(ids) == 6
    said = "(no key) has weight=5, max_in_flight=2 in jobs\n"
    asked = ("--no-key", "weight=5", "max_in_flight=2")
    assert run("keys", "set", QUEUE, *asked).output == said
    assert run("keys", "pause", QUEUE, "--no-key").output == "(no key) is paused in jobs\n"
    found = json.loads(run("keys", "show", QUEUE, "--no-key", "--json").output)
    assert (found["tenant"], found["weight"], found["max_in_flight"]) == ("", 5, 2)
    assert run("keys", "show", QUEUE, "--no-key").output.startswith("(no key) has ")
    dropped = run("keys", "drop", QUEUE, "--no-key", "--yes", "--json").stdout
    assert json.loads(dropped)["dropped"] == 3
    assert run("keys", "drop", QUEUE, "--no-key", "--dry-run").output == (
        "0 messages of (no key) in jobs wait\n"
    )
    rows = json.loads(run("keys", "list", QUEUE, "--json").stdout)["top"]
    assert {row["tenant"]: row["waiting"] for row in rows} == {"-": 1, "–": 1, "(no key)": 1}


def test_a_burst_is_a_part_of_a_rate(run: Run) -> None:
    said = "a has no rate in jobs, and 'burst' means nothing without: set both, such as rate=10/s"

    def limits() -> tuple[float | None, float]:
        found = json.loads(run("keys", "show", QUEUE, "a", "--json").output)
        return found["rate"], found["burst"]

    for words in (["burst=5"], ["weight=2", "burst=5"], ["rate=none", "burst=5"]):
        refused = run("keys", "set", QUEUE, "a", *words)
        assert refused.exit_code == 2
        assert said in " ".join(refused.output.split())
    found = json.loads(run("keys", "show", QUEUE, "a", "--json").output)
    assert (found["weight"], limits()) == (1, (None, 1))
    assert run("keys", "set", QUEUE, "a", "rate=10/s", "burst=5").exit_code == 0
    assert run("keys", "set", QUEUE, "a", "burst=7").exit_code == 0
    assert limits() == (10, 7)


def test_why_nothing_starts(
    space: Space, start_worker: StartWorker, tenants: Tenants, run: Run
) -> None:
    """A queue that is asked for its messages holds none: what waits is not here."""
    worker = start_worker(space, pool="threads", concurrency=1, queues=[QUEUE], conf=KEYED)

    def explained() -> tuple[str, str]:
        answer = worker.control("fair_explain", queue=QUEUE)
        return answer["reason"], answer["text"]

    assert explained()[0] == "no_message"
    with closing_gate() as gate:
        held = tenants.publish({"first": 1}, "hold", [str(gate.path)])
        worker.records.started.wait_ids(held)
        assert run("keys", "pause", QUEUE, "acme").exit_code == 0
        ids = tenants.publish({"acme": 3})
        assert explained() == (
            "no_slot",
            (
                "its turn is next: its credit is 0 of a quantum of 1. It waits for a free slot,"
                " 1 of 1 are busy"
            ),
        )
    wait_equal(lambda: explained()[0], "keys")
    assert explained()[1].startswith("3 messages wait, of keys that may start none now")
    assert run("keys", "resume", QUEUE, "acme").exit_code == 0
    worker.records.started.wait_once(ids)
