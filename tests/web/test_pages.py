"""Pages and forms, in this process: text of others, dead letters, keys, the log of actions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from kombu import Connection

from celery_fair.brokers.keyed.lists import KeyedLists
from celery_fair.brokers.redis import Commands
from celery_fair.settings import Settings
from celery_fair.web.actions import ActionLog
from celery_fair.web.guard import Visitors
from celery_fair.web.orders import Order
from celery_fair.web.pages.changing import as_before
from tests.brokers import Space
from tests.dead_letters.conftest import Box
from tests.waiting import wait_for
from tests.web.answered import answers, row
from tests.web.visit import Visit, site_of

HOSTILE = "</script><script>alert('1')</script><img src=x>\"' \x1b[31m\u202e{{7*7}}"
SHOWN = "\\x1b[31m\\u202e{{7*7}}"


# Text of others -------------------------------------------------------------


@pytest.mark.parametrize("path", ["/queues", "/queue?name={}", "/workers", "/worker?name={}"])
def test_names_of_queues_and_workers_are_text(path: str) -> None:
    visit = Visit(site_of({HOSTILE: {HOSTILE: row(held=HOSTILE)}}))
    text = visit.get(path.format(quote(HOSTILE))).text
    assert "<script>" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert SHOWN in unescape(text)


def test_workers_of_other_apps_are_named() -> None:
    rows = {"ours": {"jobs": row(app="shop")}, "theirs": {"ledger": row(app=HOSTILE)}}
    visit = Visit(site_of(answers(rows).of_app("shop", {"jobs"}, ())))
    text = visit.get("/workers").text
    assert "theirs: of " in text
    assert "which is on the same broker; it counts for nothing here" in text
    assert SHOWN in unescape(text)
    assert "<script>alert" not in text
    assert "ledger" not in visit.get("/queues").text


def test_errors_of_workers_are_text() -> None:
    visit = Visit(site_of({"a": {"error": HOSTILE}}))
    assert "<img" not in visit.get("/workers").text
    assert "<img" not in visit.get(f"/queue?name={quote(HOSTILE)}").text


def test_a_password_is_never_shown() -> None:
    url = "redis://:open-sesame@127.0.0.1:1/0"
    conf = {"fair_keys": {"jobs": {}}, "fair_ledger": url, "fair_group_store": url}
    conf["fair_partitions"] = {"customers": {"partitions": 2}}
    visit = Visit(site_of({"a": {"jobs": row()}}, broker=url, conf=conf))
    paths = ("/queues", "/keys", "/key?queue=jobs&key=a", "/dead-letters", "/dead-letter?id=a")
    for path in (*paths, "/partitions", "/doctor", "/queue?name=jobs", "/nothing"):
        assert "open-sesame" not in visit.get(path).text, path


# Dead letters ---------------------------------------------------------------


@pytest.fixture
def letters() -> Iterator[Visit]:
    """A site with dead letters in this process's memory."""
    box = Box("memory://")
    with box.connection:
        box.channel.queue_purge("dead-letters")
        for name in ("orders", "mail"):
            box.declare(name)
            box.channel.queue_purge(name)
        box.put("one", task="shop.charge")
        box.put("two", task="shop.charge", may_have_started=True, reason="redelivered")
        box.put("three", task="shop.mail", queue="mail", routing_key="mail")
        box.put("four", HOSTILE.encode(), task=HOSTILE, reason=HOSTILE)
        yield Visit(site_of({}))
        box.channel.queue_purge("dead-letters")


def digests(visit: Visit, query: str = "") -> dict[str, str]:
    """By task id, the digests of the letters that are shown."""
    text = visit.get(f"/dead-letters{query}").text
    return {
        name: digest
        for digest, name in re.findall(r'<th[^>]*><a href="/dead-letter\?id=(\w+)">(\w+)', text)
    }


def order_of(visit: Visit, **data: object) -> Order:
    """What an order would do."""
    response = visit.post("/dead-letters", data)
    assert response.status_code == 200, response.text
    return visit.site.orders._orders[list(visit.site.orders._orders)[-1]]


def done(visit: Visit, order: Order) -> Order:
    assert visit.post("/order", {"id": order.id}).status_code == 303
    wait_for(lambda: order.state == "ended", 30)
    return order


def test_letters_are_found_by_what_they_are(letters: Visit) -> None:
    assert set(digests(letters)) == {"one", "two", "three", "four"}
    assert set(digests(letters, "?task=shop.charge")) == {"one", "two"}
    assert set(digests(letters, "?task=shop.charge&reason=redelivered")) == {"two"}
    assert set(digests(letters, "?queue=mail&since=2026-05-31T13:00Z")) == {"three"}
    assert set(digests(letters, "?before=2026-05-31T13:00Z")) == set()
    assert "is neither an age" in letters.get("/dead-letters?since=soon").text


def test_a_letter_is_text(letters: Visit) -> None:
    name = digests(letters)["four"]
    for path in ("/dead-letters", f"/dead-letter?id={name}"):
        text = letters.get(path).text
        assert "<img" not in text
        assert "\x1b" not in text
        assert escape(SHOWN) in text


def test_what_never_started_is_replayed_and_the_rest_is_left(letters: Visit) -> None:
    order = order_of(letters, kind="replay", task="shop.charge")
    assert (len(order.digests), len(order.planned.refused), order.state) == (1, 1, "planned")
    assert len(digests(letters)) == 4
    done(letters, order)
    assert (order.done, order.failed, order.trouble) == (1, {}, "")
    assert set(digests(letters)) == {"two", "three", "four"}


def test_what_may_have_started_needs_a_reason(letters: Visit) -> None:
    refused = letters.post("/dead-letters", {"kind": "replay-may-have-started"})
    assert (refused.status_code, "say why" in refused.text) == (400, True)
    order = order_of(letters, kind="replay-may-have-started", why="no receipt", task="shop.charge")
    done(letters, order)
    assert order.done == 2
    action = letters.site.log.recent()[0]
    assert (action.who, action.what, action.details["why"]) == ("local", order.kind, "no receipt")
    wait_for(lambda: action.result, 30)
    assert action.result == {"all": "2 replayed"}


def test_what_is_ticked_is_meant_alone(letters: Visit) -> None:
    known = digests(letters)
    order = order_of(letters, kind="purge", digest=[known["one"], known["three"]])
    done(letters, order)
    assert set(digests(letters)) == {"two", "four"}


def test_what_came_since_it_was_shown_is_left(letters: Visit) -> None:
    order = order_of(letters, kind="purge", task="shop.charge")
    box = Box("memory://")
    with box.connection:
        box.put("late", task="shop.charge")
    done(letters, order)
    assert set(digests(letters)) == {"three", "four", "late"}


def test_a_letter_that_somebody_has_taken_is_told(letters: Visit) -> None:
    first = order_of(letters, kind="purge", task="shop.mail")
    second = order_of(letters, kind="purge", task="shop.mail")
    done(letters, first)
    done(letters, second)
    assert (first.done, second.done, second.gone) == (1, 0, 1)
    assert "not there any more" in letters.get(f"/order?id={second.id}").text


def test_an_order_is_done_once(letters: Visit) -> None:
    order = done(letters, order_of(letters, kind="purge", task="shop.mail"))
    assert letters.post("/order", {"id": order.id}).status_code == 409
    assert letters.post("/order", {"id": "other"}).status_code == 404


def test_an_order_is_its_planners(letters: Visit) -> None:
    visitors = Visitors(True, (), "X-User", ["127.0.0.1"])
    alice = Visit(letters.site, visitors, headers={"X-User": "alice"})
    bob = Visit(letters.site, visitors, headers={"X-User": "bob"})
    order = order_of(alice, kind="purge", task="shop.mail")
    assert bob.post("/order", {"id": order.id}).status_code == 409
    assert set(digests(letters)) >= {"three"}


# Keys -----------------------------------------------------------------------


@pytest.fixture
def keyed(redis_space: Space) -> Iterator[tuple[Visit, KeyedLists]]:
    """A site whose queue "jobs" is shared by key, with messages of two keys."""
    site = site_of({}, broker=redis_space.url, conf={"fair_keys": {"jobs": {}}})
    with Connection(redis_space.url) as connection:
        channel = connection.default_channel
        lists = KeyedLists(channel, Commands(channel), Settings.of(site.app).keys["jobs"])
        for tenant in ("acme", HOSTILE.replace("/", "%2F")):
            for _ in range(3):
                lists.put(tenant, "", "", "{}")
        yield Visit(site), lists


def test_keys_are_shown_as_text(keyed: tuple[Visit, KeyedLists]) -> None:
    visit, _ = keyed
    for path in ("/keys", f"/key?queue=jobs&key={quote(HOSTILE.replace('/', '%2F'))}"):
        text = visit.get(path).text
        assert "<img" not in text
        assert escape(SHOWN) in text
    assert "acme has 3 messages waiting in jobs" in visit.get("/key?queue=jobs&key=acme").text


def test_a_key_is_given_another_weight_and_has_it_taken_back(
    keyed: tuple[Visit, KeyedLists],
) -> None:
    visit, lists = keyed
    data = {"queue": "jobs", "key": "acme", "weight": "3", "max_in_flight": "2"}
    seen = visit.post("/key", data)
    assert "from 50.0 % to 75.0 %" in seen.text
    assert lists.look("acme")[2][0].weight == 1
    assert visit.post("/key", {**data, "step": "do"}).status_code == 303
    found = lists.look("acme")[2][0]
    assert (found.weight, found.limits.max_in_flight) == (3, 2)
    back = visit.site.log.recent()[0].back
    assert visit.post("/key", {**back, "step": "do"}).status_code == 303
    found = lists.look("acme")[2][0]
    assert (found.weight, found.limits.max_in_flight) == (1, None)


def test_a_burst_is_taken_back(keyed: tuple[Visit, KeyedLists]) -> None:
    visit, lists = keyed
    lists.set("acme", {"rate": 10.0, "burst": 5})
    form = {"queue": "jobs", "key": "acme", "burst": "7", "step": "do"}
    for burst in (7, 5):
        assert visit.post("/key", form).status_code == 303
        assert lists.look("acme")[2][0].limits.burst == burst
        form = {**visit.site.log.recent()[0].back, "step": "do"}


def test_a_key_that_there_is_no_page_of(keyed: tuple[Visit, KeyedLists]) -> None:
    visit, _ = keyed
    nowhere = visit.get("/keys?queue=other")
    assert (nowhere.status_code, "no queue" in nowhere.text) == (404, True)
    part = visit.get("/key?queue=jobs&key=acme/user-7")
    assert (part.status_code, "is a part of" in part.text) == (409, True)
    assert "shared by key" in Visit(site_of({})).get("/keys").text


def test_a_key_is_paused(keyed: tuple[Visit, KeyedLists]) -> None:
    visit, lists = keyed
    for act, other in (("pause", "resume"), ("resume", "pause")):
        data = {"queue": "jobs", "key": "acme", "act": act, "step": "do"}
        assert visit.post("/key", data).status_code == 303
        assert lists.look("acme")[2][0].is_paused is (act == "pause")
        assert f'value="{other}"' in visit.get("/key?queue=jobs&key=acme").text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"key": "acme"}, "nothing was filled in"),
        ({"key": "acme", "weight": "-1"}, "weight"),
        ({"key": "acme", "rate": "often"}, "rate"),
        ({"key": "acme/part", "weight": "2"}, "a part of"),
        ({"key": "acme", "weight": "2", "queue": "other"}, "no queue of fair_keys"),
        ({"key": "acme", "act": "delete", "step": "do"}, "none of pause, resume, reset"),
    ],
)
def test_a_change_that_cannot_be(
    keyed: tuple[Visit, KeyedLists], data: dict[str, str], said: str
) -> None:
    visit, lists = keyed
    response = visit.post("/key", {"queue": "jobs", **data})
    assert response.status_code == 409
    assert said in unescape(response.text)
    assert lists.look("acme")[2][0].weight == 1


# Actions --------------------------------------------------------------------


def test_actions_are_written_before_and_after(tmp_path: Path) -> None:
    path = tmp_path / "actions.jsonl"
    log = ActionLog(path)
    action = log.begin("alice", "quantum=3", "queue bulk", {"quantum": "3"})
    (begun,) = map(json.loads, path.read_text().splitlines())
    assert (begun["event"], begun["who"], begun["what"]) == ("begun", "alice", "quantum=3")
    log.end(action, {"a": "ok"}, {"quantum": "2"})
    ended = json.loads(path.read_text().splitlines()[1])
    assert (ended["event"], ended["id"], ended["result"]) == ("ended", begun["id"], {"a": "ok"})
    with path.open("a") as file:
        file.write('{"torn": \n[]\n')
    (again,) = ActionLog(path).recent()
    assert (again.who, again.result, again.back) == ("alice", {"a": "ok"}, {"quantum": "2"})


def test_what_cannot_be_written_down_is_not_done(
    keyed: tuple[Visit, KeyedLists], tmp_path: Path
) -> None:
    visit, lists = keyed
    folder = tmp_path / "logs"
    folder.mkdir()
    visit.site.log = ActionLog(folder / "actions.jsonl")
    (folder / "actions.jsonl").unlink()
    folder.rmdir()
    data = {"queue": "jobs", "key": "acme", "weight": "3", "step": "do"}
    response = visit.post("/key", data)
    assert (response.status_code, "cannot be written" in response.text) == (500, True)
    assert lists.look("acme")[2][0].weight == 1


def test_only_the_last_change_can_be_taken_back() -> None:
    visit = Visit(site_of({}))
    for number, about in enumerate(("queue a", "queue b", "queue a")):
        action = visit.site.log.begin("alice", "…", about, {})
        visit.site.log.end(action, {}, {"path": "queue", "quantum": f"{number}7"})
    text = visit.get("/actions").text
    assert [f'value="{number}7"' in text for number in range(3)] == [False, True, True]


@pytest.mark.parametrize(
    ("now", "names", "fields"),
    [
        ({"quantum": 0.1234567, "rate": None}, ["quantum"], {"quantum": "0.1234567"}),
        ({"rate": None, "burst": None}, ["rate", "burst"], {"rate": "none"}),
        ({"rate": 0.1, "burst": 3}, ["rate"], {"rate": "0.1/s", "burst": "3"}),
        ({"rate": 0.1, "burst": 3}, ["burst"], {"burst": "3"}),
        ({"rate": None, "max_in_flight": None}, ["max_in_flight"], {"max_in_flight": "none"}),
    ],
)
def test_a_form_that_takes_options_back(
    now: dict[str, Any], names: list[str], fields: dict[str, str]
) -> None:
    assert as_before(now, names) == fields
