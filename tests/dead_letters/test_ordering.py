"""`dead-letters replay` and `purge`: what was asked for is done once, and all else stays."""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue

from celery_fair.brokers.broker import letters_of
from celery_fair.cli import dead_letters, interrupt
from celery_fair.cli.interrupt import stoppable
from celery_fair.dead_letters.plan import Plan
from celery_fair.dead_letters.replay import purge, replay
from celery_fair.ledger import Ledger, ledger_at
from celery_fair.operate.dead_letters import Order, opened
from tests.brokers import Space
from tests.dead_letters.conftest import NAME, Box

# Replay -------------------------------------------------------------------


def test_replayed_message_is_fresh(box: Box) -> None:
    body = b"\x80\x81[[1]]"
    kept = {"priority": 3, "correlation_id": "c", "reply_to": "r"}
    box.put("t1", body, content_type="application/x-odd", properties=kept, redelivered=True)

    assert box.order("replay", "t1") == {
        "replayed": ["t1"],
        "refused": [],
        "failed": {},
        "duplicates": [],
    }

    assert box.ids() == []
    (message,) = box.get("orders")
    assert message.headers == {"id": "t1", "task": "shop.charge"}
    assert (message.body, message.content_type) == (body, "application/x-odd")
    assert {name: message.properties[name] for name in kept} == kept
    assert not message.delivery_info.get("redelivered")
    assert message.delivery_info["routing_key"] == "orders"


@pytest.mark.either_broker
def test_order_of_replayed_letters_and_of_those_that_stay(box: Box) -> None:
    ids = [f"t{number}" for number in range(600)]
    for number, each in enumerate(ids):
        box.put(each, reason="redelivered" if number % 3 else "malformed")
    box.order("replay", "--all", "--reason", "malformed")
    assert [message.headers["id"] for message in box.get("orders")] == ids[::3]
    assert box.ids() == [each for number, each in enumerate(ids) if number % 3]


@pytest.mark.parametrize("said", [True, "no", None, ...])
def test_what_may_have_started_is_refused(box: Box, said: Any) -> None:
    box.put("t1", may_have_started=said)
    box.put("t2")

    report = box.order("replay", "--all", status=1)

    assert (report["replayed"], report["refused"]) == (["t2"], ["t1"])
    assert box.ids() == ["t1"]
    outcome = box.run("replay", "t1")
    assert outcome.exit_code == 1
    said = "1 refused, as it may have started; look at what it did, then --may-have-started: t1"
    assert said in outcome.stderr
    assert box.order("replay", "t1", "--may-have-started")["replayed"] == ["t1"]
    assert [message.headers["id"] for message in box.get("orders")] == ["t2", "t1"]


PROVEN = 1_790_000_000.123456
"""When what the log has proven was published."""


def proven(tmp_path: Path, *ids: str, retries: int = 0) -> str:
    """A file of `pipeline audit --ids-out`."""
    path = tmp_path / "replayable.jsonl"
    rows = ({"id": id_, "retries": retries, "published": PROVEN} for id_ in ids)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def test_what_provably_has_not_started_is_replayed(box: Box, tmp_path: Path) -> None:
    box.put("t1", may_have_started=True, published=PROVEN)
    box.put("not in the file", may_have_started=True, published=PROVEN)
    box.put("published again", may_have_started=True, published=PROVEN + 60)
    box.put("another try", may_have_started=True, published=PROVEN, retries=1)
    box.put("t2", published=PROVEN, retries=0)
    others = ["not in the file", "published again", "another try"]
    file = proven(tmp_path, "t1", "t2", "t3", *others[1:])

    foreseen = box.order("replay", "--provable", file, "--dry-run")
    assert foreseen["replayed"] == ["t1", "t2"]
    report = box.order("replay", "--provable", file)

    assert (report["replayed"], report["refused"], report["failed"]) == (["t1", "t2"], [], {})
    assert box.ids() == others
    assert [message.headers["id"] for message in box.get("orders")] == ["t1", "t2"]
    assert box.order("replay", "--provable", file)["replayed"] == []


def test_of_a_copy_that_was_published_later_nothing_is_proven(box: Box, tmp_path: Path) -> None:
    box.put("t1", may_have_started=False, published=PROVEN)
    box.put("t1", may_have_started=True, published=PROVEN + 60)
    report = box.order("replay", "--provable", proven(tmp_path, "t1"), status=1)
    assert (report["replayed"], report["refused"]) == ([], ["t1"])
    assert box.ids() == ["t1", "t1"]


def test_provable_and_filters(box: Box, tmp_path: Path) -> None:
    box.put("t1", published=PROVEN, reason="redelivered")
    box.put("t2", published=PROVEN)
    words = ("replay", "--provable", proven(tmp_path, "t1", "t2"), "--reason", "redelivered")
    assert box.order(*words)["replayed"] == ["t1"]


@pytest.mark.parametrize(
    "line", ["t1", "{}", "[]", '{"id": "t1", "retries": 0, "published": null}']
)
def test_a_file_that_proves_nothing(redis_box: Box, tmp_path: Path, line: str) -> None:
    redis_box.put("t1", published=PROVEN)
    (tmp_path / "file").write_text(f"{line}\n")
    outcome = redis_box.run("replay", "--provable", str(tmp_path / "file"))
    assert outcome.exit_code == 2
    assert "line 1, " in outcome.stderr
    assert "--ids-out" in outcome.stderr
    assert redis_box.ids() == ["t1"]


def test_a_file_of_bytes_proves_nothing(redis_box: Box, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\x80")
    outcome = redis_box.run("replay", "--provable", str(tmp_path / "file"))
    assert outcome.exit_code == 2
    assert f"{tmp_path / 'file'}: 'utf-8' codec" in outcome.stderr


def test_provable_names_the_letters_alone(redis_box: Box, tmp_path: Path) -> None:
    outcome = redis_box.run("replay", "t1", "--provable", proven(tmp_path, "t1"))
    assert outcome.exit_code == 2
    assert "leave out the ids" in outcome.stderr


def test_to_its_exchange(box: Box) -> None:
    box.app.conf.task_queues = [Queue("deep", Exchange("tree", type="topic"), routing_key="a.#")]
    box.app.amqp.queues["deep"](box.channel).declare()
    box.put("t1", exchange="tree", routing_key="a.b.c")

    assert box.order("replay", "t1")["replayed"] == ["t1"]

    (message,) = box.get("deep")
    assert message.delivery_info["exchange"] == "tree"
    assert message.delivery_info["routing_key"] == "a.b.c"


UNROUTABLE = {
    "no such exchange": ({"exchange": "nosuch", "routing_key": "a"}, "nosuch"),
    "no binding": (
        {"exchange": NAME + ".bound", "routing_key": "b"},
        "no queue is bound to exchange 'dead-letters.bound' for routing key 'b'; declare one",
    ),
    "no queue named": ({"queue": ...}, "x-fair-queue None does not say where it was"),
    "a queue of another type": ({"queue": 7}, "x-fair-queue 7 does not say where it was"),
    "an exchange of another type": ({"exchange": ["a"]}, "both must be text"),
}


@pytest.mark.parametrize(("headers", "reason"), UNROUTABLE.values(), ids=UNROUTABLE)
def test_what_cannot_be_routed_stays(box: Box, headers: dict[str, Any], reason: str) -> None:
    bound = Exchange(NAME + ".bound", type="direct")
    Queue("other", bound, routing_key="other")(box.channel).declare()
    box.put("t1", **headers)
    box.put("t2")

    report = box.order("replay", "--all", status=1)

    assert reason in report["failed"].pop("t1")
    assert report == {"replayed": ["t2"], "refused": [], "failed": {}, "duplicates": []}
    assert box.ids() == ["t1"]


def test_queue_that_is_gone(rabbitmq_space: Space) -> None:
    box = Box(rabbitmq_space.url)
    with box.connection:
        box.put("t1", queue="gone")
        report = box.order("replay", "t1", status=1)
        assert report["failed"] == {"t1": "there is no queue 'gone'; declare it"}
        assert box.ids() == ["t1"]


def test_redis_key_that_is_no_queue(redis_space: Space) -> None:
    box = Box(redis_space.url)
    with box.connection:
        box.put("t1", queue="text")
        box.channel.client.set("text", "x")
        report = box.order("replay", "t1", status=1)
        assert "key text is no queue but a string" in report["failed"]["t1"]
        assert box.ids() == ["t1"]


def test_redis_priority(redis_space: Space) -> None:
    box = Box(redis_space.url)
    with box.connection:
        box.put("t1", properties={"priority": 6})
        box.order("replay", "t1")
        assert redis_space.ready() == {"orders\x06\x166": 1}


NO_MESSAGES = [
    *(b"\xff", b"[" * 100_000, b"7", b"null", b"{}", b'{"properties": 1}', b'{"properties": {}}'),
    b'{"properties": {}, "headers": [1]}',
]


def test_what_is_no_message(redis_space: Space) -> None:
    box = Box(redis_space.url)
    with box.connection:
        for raw in NO_MESSAGES:
            box.channel.client.lpush(NAME, raw)
        ids = box.ids()
        assert len(set(ids)) == len(NO_MESSAGES)
        assert all(box.run("show", each).exit_code == 0 for each in ids)
        report = box.order("replay", "--all", "--may-have-started", status=1)
        assert report["failed"].keys() == set(ids)
        assert all("it can only be purged" in text for text in report["failed"].values())
        assert box.ids() == ids
        assert box.order("purge", "--all", "--yes")["purged"] == ids
        assert redis_space.ready() == {}


def test_malformed_letters_are_replayed_as_they_are(box: Box) -> None:
    box.put(None, b"\xff\xfe")
    box.put(["no", "text"], b"", task=7)
    ids = box.ids()
    assert box.order("replay", *ids)["replayed"] == ids
    first, second = box.get("orders")
    assert (bytes(first.body), first.headers) == (b"\xff\xfe", {"task": "shop.charge"})
    assert second.headers == {"id": ["no", "text"], "task": 7}


def test_dry_run_changes_nothing(box: Box) -> None:
    for each in ("t1", "t2", "t1"):
        box.put(each)
    box.put("t3", may_have_started=True)
    before = box.list()

    report = box.order("replay", "--all", "--dry-run", status=1)

    assert report == {
        "replayed": ["t1", "t2"],
        "refused": ["t3"],
        "failed": {},
        "duplicates": ["t1"],
        "dry_run": True,
    }
    assert box.order("purge", "--all", "--dry-run")["purged"] == ["t1", "t1", "t2", "t3"]
    assert "1 would be replayed: t1" in box.run("replay", "t1", "--dry-run").stdout
    assert box.list() == before
    assert box.get("orders") == []


# Copies -------------------------------------------------------------------


def test_one_of_two_copies_is_replayed(box: Box) -> None:
    box.put("t1", worker="a@host", time="2026-05-31T13:00:00+00:00")
    box.put("t2")
    box.put("t1", worker="b@host", reason="redelivered")

    report = box.order("replay", "--all", "--reason", "malformed")

    assert report["replayed"] == ["t2", "t1"]
    assert report["duplicates"] == ["t1"]
    assert box.ids() == []
    assert [message.headers["id"] for message in box.get("orders")] == ["t2", "t1"]


def test_a_copy_that_may_have_started_speaks_for_all(box: Box) -> None:
    box.put("t1")
    box.put("t1", may_have_started=True)
    report = box.order("replay", "--all", "--reason", "malformed", status=1)
    assert report["refused"] == ["t1"]
    assert box.ids() == ["t1", "t1"]


def test_same_id_other_message(box: Box) -> None:
    box.put("t1", b"[[1], {}, {}]")
    box.put("t1", b"[[2], {}, {}]")

    report = box.order("replay", "t1", status=1)

    first, second = (letter["digest"] for letter in box.list())
    assert report["failed"] == {
        "t1": f"2 different messages have this id; name one by its digest: {first}, {second}"
    }
    assert box.order("replay", second)["replayed"] == [second]
    (message,) = box.get("orders")
    assert message.body == b"[[2], {}, {}]"
    assert box.ids() == ["t1"]


def test_an_unknown_id_among_others(box: Box) -> None:
    box.put("t1")
    report = box.order("replay", "nosuch", "t1", status=1)
    assert report["replayed"] == ["t1"]
    assert report["failed"] == {"nosuch": "there is no such dead letter; list shows their ids"}


# Somebody else, and the end -----------------------------------------------


@pytest.fixture
def second(box: Box) -> Iterator[Connection]:
    """A connection such as a command has."""
    with box.app.connection_for_write() as connection:
        yield connection


def planned(box: Box, connection: Connection) -> Plan:
    plan = Plan(letters_of(box.app, connection), lambda _: True)
    for copies in plan.wanted():
        plan.replay(copies, may_have_started=True)
    return plan


def test_what_was_looked_at_is_back_at_once(box: Box, second: Connection) -> None:
    for _ in range(30):  # without waiting for it, it is not in one of some hundreds
        for each in ("t1", "t2", "t2"):
            box.put(each)
        planned(box, second)
        assert len(box.get(NAME)) == 3


def test_what_somebody_else_took_meanwhile(box: Box, second: Connection) -> None:
    for each in ("t1", "t2", "t2"):
        box.put(each)
    plan = planned(box, second)
    box.get(NAME)
    box.put("t2")
    box.put("t4")

    report = replay(letters_of(box.app, second), plan)

    assert report.failed.keys() == {"t1", "t2"}
    assert "somebody else has taken it" in report.failed["t1"]
    assert report.done == []
    assert box.get("orders") == []
    assert box.ids() == ["t2", "t4"]


@pytest.mark.either_broker("redis")
def test_a_claim_is_not_forgotten_of_what_somebody_else_has_replayed(
    box: Box, second: Connection
) -> None:
    """It may be that of the message that they have replayed, which runs."""
    ids = [f"t{number:03}" for number in range(600)]  # more than are read at a time
    for each in ids:
        box.put(each, claim=each)
    forgotten: list[str] = []

    def stop() -> bool:
        if not forgotten:  # what it goes through has been read
            with box.app.connection_for_write() as first:
                letters = letters_of(box.app, first)
                replay(
                    letters, planned(box, first), forget=lambda claim, _: forgotten.append(claim)
                )
        return False

    report = replay(
        letters_of(box.app, second),
        planned(box, second),
        forget=lambda claim, _: forgotten.append(f"{claim}, which runs"),
        stop=stop,
    )

    assert forgotten == ids
    assert report.failed.keys() == {*ids}
    assert [message.headers["id"] for message in box.get("orders")] == ids


def test_interrupted(box: Box, second: Connection) -> None:
    for each in ("t1", "t2", "t3"):
        box.put(each)
    plan = planned(box, second)
    queue = letters_of(box.app, second)
    report = replay(queue, plan, stop=lambda: bool(plan.report.done))
    assert report.done == ["t1"]
    assert report.failed == dict.fromkeys(["t2", "t3"], "not tried: interrupted")
    assert box.ids() == ["t2", "t3"]


def test_of_many_each_has_its_own_outcome(box: Box, space: Space) -> None:
    """More than are in hand at a time, all with one body; some that nothing takes."""
    lost = {"exchange": "gone"} if space.kind == "redis" else {"queue": "gone"}
    for number in range(120):
        box.put(f"t{number}", **(lost if number % 7 == 0 else {}))
    gone = [f"t{number}" for number in range(0, 120, 7)]
    outcome = box.run("replay", "--all")
    assert outcome.exit_code == 1
    assert outcome.stdout.startswith(f"{120 - len(gone)} replayed: t1, ")
    assert f"{len(gone)} failed: " in outcome.stderr
    assert "'gone'" in outcome.stderr
    assert sorted(box.ids()) == sorted(gone)
    assert len(box.get("orders")) == 120 - len(gone)


def test_an_exchange_that_is_gone_is_not_the_others_trouble(box: Box) -> None:
    for number in range(6):
        box.put(f"t{number}", **({"exchange": "gone"} if number == 3 else {}))
    report = box.order("replay", "--all", status=1)
    assert sorted(report["replayed"]) == ["t0", "t1", "t2", "t4", "t5"]
    assert [*report["failed"]] == ["t3"]
    assert len(box.get("orders")) == 5
    assert box.ids() == ["t3"]


def test_lost_connection(box: Box, second: Connection) -> None:
    for each in ("t1", "t2"):
        box.put(each)
    plan = planned(box, second)
    queue = letters_of(box.app, second)

    def lose(_: int) -> None:
        raise OSError("the cable was cut")

    report = replay(queue, plan, tick=lose)

    assert report.done == ["t1"]
    assert "the cable was cut" in report.failed["t2"]
    assert not report.whole
    second.close()
    assert box.ids() == ["t2"]


def test_a_browse_that_is_left_early_changes_nothing(box: Box, second: Connection) -> None:
    ids = ["t1", "t2", "t3"]
    for each in ids:
        box.put(each)
    with closing(letters_of(box.app, second).browse(lambda _: True)) as letters:
        assert next(letters).id == "t1"
    assert box.ids() == ids


def test_claims_are_forgotten_before_the_replay(box: Box, second: Connection) -> None:
    """By what they are claimed, which is not whose they are."""
    box.put("t1", claim="claim-1", key="acme", may_have_started=True)
    box.put("t2", claim=7, key="acme")
    box.put("t3", claim="claim-3")
    plan = planned(box, second)
    forgotten = []

    def forget(key: str, id_: str) -> None:
        if key == "claim-3":
            raise KeyError(key)
        forgotten.append((key, id_, list(plan.report.done)))

    report = replay(letters_of(box.app, second), plan, forget=forget)

    assert forgotten == [("claim-1", "t1", [])]
    assert report.done == ["t1", "t2"]
    assert report.failed == {"t3": "'claim-3'"}
    assert box.ids() == ["t3"]


@pytest.fixture
def ledger(redis_box: Box, tmp_path: Path) -> Iterator[Ledger]:
    """That of the app whose letters these are."""
    redis_box.app.conf.fair_ledger = f"sqlite:///{tmp_path}/ledger.db"
    with closing(ledger_at(redis_box.app.conf.fair_ledger, 3600)) as ledger:
        yield ledger


def test_what_is_proven_gives_up_no_claim_of_another(
    redis_box: Box, ledger: Ledger, tmp_path: Path
) -> None:
    """The claim may be of what was done; a ledger that was away did not say whose it is."""
    known: dict[str, Any] = {"published": PROVEN, "may_have_started": True, "reason": "redelivered"}
    works = {"t1": "own", "t2": "another's", "t3": "none", "t4": "none", "t5": "former"}
    for each, work in works.items():
        redis_box.put(each, claim=work, **known)
    for work, owner in {"own": "1 t1", "another's": "1 t0", "former": "t5"}.items():
        ledger.claim(work, owner, doubt=False)

    report = redis_box.order("replay", "--provable", proven(tmp_path, *works))

    assert report["replayed"] == list(works)
    owners = {work: ledger.claim(work, "1 t6", doubt=False).owner for work in set(works.values())}
    assert owners == {"own": None, "another's": "1 t0", "none": None, "former": None}


def test_of_what_is_replayed_for_the_same_work_one_may_start(
    redis_box: Box, ledger: Ledger
) -> None:
    for each in ("t1", "t2"):
        redis_box.put(each, claim="work", may_have_started=True)
    ledger.claim("work", "t0", doubt=False)
    order = Order(may_have_started=True)
    owners = []

    def claim(_: int) -> None:
        """As a worker does when the message has come."""
        owners.append(ledger.claim("work", "t1", doubt=False).owner)

    with opened(redis_box.app) as queue:
        report = order.do(redis_box.app, queue, order.plan(queue), tick=claim)

    assert report.done == ["t1", "t2"]
    assert owners == [None, "t1"]


# Purge --------------------------------------------------------------------


def test_purge(box: Box) -> None:
    for each in ("t1", "t2", "t1", "t3"):
        box.put(each, task=each)
    assert box.order("purge", "t1", "--yes")["purged"] == ["t1", "t1"]
    assert box.order("purge", "--all", "--task", "t3", "--yes")["purged"] == ["t3"]
    assert box.ids() == ["t2"]
    assert box.get("orders") == []


def test_purge_by_filter_leaves_other_copies(box: Box) -> None:
    box.put("t1", reason="redelivered")
    box.put("t1")
    box.order("purge", "--all", "--reason", "malformed", "--yes")
    (letter,) = box.list()
    assert letter["reason"] == "redelivered"


def test_purge_interrupted(box: Box, second: Connection) -> None:
    box.put("t1")
    box.put("t2")
    plan = planned(box, second)
    queue = letters_of(box.app, second)
    report = purge(queue, plan, lambda _: True, stop=lambda: bool(plan.report.done))
    assert (report.done, list(report.failed)) == (["t1"], ["t2"])
    assert box.ids() == ["t2"]


# What is asked ------------------------------------------------------------


class Terminal:
    """Stands for ``sys``, with standard input as a terminal."""

    def __init__(self, real: Any) -> None:
        self.stderr = real.stderr
        self.stdin = self

    def isatty(self) -> bool:
        return True


@pytest.fixture
def redis_box(redis_space: Space) -> Iterator[Box]:
    box = Box(redis_space.url)
    with box.connection:
        yield box


def test_asks_on_a_terminal(redis_box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("t1", "t2", "t3"):
        redis_box.put(each)
    monkeypatch.setattr(dead_letters, "sys", Terminal(sys))

    outcome = redis_box.run("replay", "--all", input="n\n")
    assert (outcome.exit_code, "Replay 3 dead letters?" in outcome.stderr) == (1, True)
    outcome = redis_box.run("purge", "t1", input="n\n")
    assert (outcome.exit_code, "Remove 1 dead letters for good?" in outcome.stderr) == (1, True)
    assert redis_box.ids() == ["t1", "t2", "t3"]
    assert redis_box.order("replay", "t1")["replayed"] == ["t1"]
    assert redis_box.order("replay", "--all", "--yes")["replayed"] == ["t2", "t3"]


def test_purge_without_a_terminal_needs_yes(redis_box: Box) -> None:
    redis_box.put("t1")
    outcome = redis_box.run("purge", "t1")
    assert outcome.exit_code == 2
    assert "purge removes letters for good; say --yes, or --dry-run to look" in outcome.stderr
    assert redis_box.ids() == ["t1"]


@pytest.mark.parametrize("words", [[], ["t1", "--all"], ["t1", "--task", "a"], ["--task", "a"]])
@pytest.mark.parametrize("command", ["replay", "purge"])
def test_which_letters_must_be_said(redis_box: Box, command: str, words: list[str]) -> None:
    outcome = redis_box.run(command, *words)
    assert outcome.exit_code == 2
    assert "name letters by their ids, which dead-letters list shows, or give --all" in (
        outcome.stderr
    )


def test_nothing_to_do(redis_box: Box) -> None:
    outcome = redis_box.run("replay", "--all")
    assert (outcome.exit_code, outcome.output) == (0, "0 replayed\n")


def test_progress_is_shown_on_a_terminal(redis_box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    for each in ("t1", "t2"):
        redis_box.put(each)
    terminal = Terminal(sys)
    terminal.stderr = Screen()
    monkeypatch.setattr(interrupt, "sys", terminal)
    assert redis_box.order("replay", "--all", "--yes")["replayed"] == ["t1", "t2"]
    assert "Replaying" in terminal.stderr.getvalue()
    assert "100%" in terminal.stderr.getvalue()


def test_ctrl_c_is_kept_until_the_letter_is_done() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stoppable() as stop:
        assert not stop()
        signal.raise_signal(signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) == before


# Another transport --------------------------------------------------------


def test_memory() -> None:
    box = Box("memory://dead-letters")
    with box.connection:
        box.get(NAME)
        box.declare("orders")
        for each in ("t1", "t2", "t1", "t3", "t4"):
            box.put(each, may_have_started=each == "t3")
        assert box.ids() == ["t1", "t2", "t1", "t3", "t4"]
        assert json.loads(box.run("show", "t2", "--json").stdout)[0]["body"]["args"] == [7]
        assert box.order("replay", "t2")["replayed"] == ["t2"]
        assert box.ids() == ["t1", "t1", "t3", "t4"]
        report = box.order("replay", "--all", status=1)
        assert (report["replayed"], report["duplicates"]) == (["t1", "t4"], ["t1"])
        assert report["refused"] == ["t3"]
        assert box.order("purge", "--all", "--yes")["purged"] == ["t3"]
        messages = box.get("orders")
        assert [message.headers["id"] for message in messages] == ["t2", "t1", "t4"]
        assert messages[0].headers == {"id": "t2", "task": "shop.charge"}
        assert messages[0].body == b"[[7], {}, {}]"
