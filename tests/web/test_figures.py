"""What is computed from workers' answers, and kept of them."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event
from typing import Any

import pytest

from celery_fair.operate.answers import Answers
from celery_fair.operate.errors import NoAnswerError
from celery_fair.operate.sums import Figures
from celery_fair.web.collector import Collector, History
from celery_fair.web.looks import Answer, Looks
from celery_fair.web.pages.listing import Listing, listing
from celery_fair.web.pages.queues import foreseen_target
from celery_fair.web.site import templates
from celery_fair.web.snapshot import Snapshot
from tests.web.answered import KnownDepths, answers, row
from tests.web.visit import Visit, site_of


def why(name: str, queue: Figures) -> str:
    """What a page says of a figure."""
    return str(getattr(templates().get_template("why.html").module, name)(queue))


def snapshot(workers: dict[str, Any], **more: Any) -> Snapshot:
    return Snapshot(number=1, time=100.0, workers=workers, **more)


# Sums -----------------------------------------------------------------------


def test_a_share_is_of_what_all_workers_served() -> None:
    """One serves three times as much as the other, all of it of one queue."""
    found = snapshot(
        {
            "busy": {
                "bulk": row(share=1.0, cost_per_second=30.0, target_share=0.5),
                "mail": row(target_share=0.5),
            },
            "calm": {"mail": row(share=1.0, cost_per_second=10.0, target_share=1.0)},
        }
    ).queues
    assert {name: queue["share"] for name, queue in found.items()} == {"bulk": 0.75, "mail": 0.25}
    assert {name: queue["target_share"] for name, queue in found.items()} == {
        "bulk": 0.375,
        "mail": 0.625,
    }
    assert {name: queue["workers"] for name, queue in found.items()} == {"bulk": 1, "mail": 2}


def test_starts_are_those_of_all_workers() -> None:
    workers = {"a": {"bulk": row(per_second=5.0), "mail": row(per_second=1.0)}}
    workers["b"] = {"bulk": row(per_second=2.5)}
    found = snapshot(workers)
    assert {name: each["per_second"] for name, each in found.queues.items()} == {
        "bulk": 7.5,
        "mail": 1.0,
    }
    assert {name: each["per_second"] for name, each in found.sums.items()} == {"a": 6.0, "b": 2.5}


def test_a_backlog_is_at_the_broker_and_at_workers() -> None:
    workers = {"a": {"bulk": row(buffered=3)}, "b": {"bulk": row(buffered=4)}}
    assert snapshot(workers, depths={"bulk": 100}).queues["bulk"]["backlog"] == 107
    assert snapshot(workers).queues["bulk"]["backlog"] == 7


def test_the_oldest_is_of_messages_that_wait() -> None:
    workers = {
        "a": {"bulk": row()},
        "b": {"bulk": row(buffered=1, waiting_seconds=2.0)},
    }
    assert snapshot(workers).queues["bulk"]["waiting_seconds"] == 2.0
    text = Visit(site_of(workers)).get("/queues").text
    assert re.findall('data-label="([^"]+)"><[^>]+>2.0 s<', text) == ["First at a worker"]


def test_one_worker_is_one() -> None:
    found = snapshot({"a": {"bulk": row(), "mail": row()}, "b": {"bulk": row()}}).queues
    assert why("running", found["mail"]) == "0 of its tasks run now, at 1 worker."
    assert why("running", found["bulk"]) == "0 of its tasks run now, at 2 workers."


def test_the_age_of_a_backlog_is_that_of_the_oldest_at_a_worker() -> None:
    """A worker's first is older than what the broker has still to give."""
    workers = {
        "a": {"bulk": row(buffered=1, oldest_published=40.0)},
        "b": {"bulk": row(buffered=1, oldest_published=70.0), "mail": row(buffered=1)},
    }
    found = snapshot(workers).queues
    assert [found[name]["oldest_seconds"] for name in ("bulk", "mail")] == [60.0, None]
    assert "was published 60.0 s ago" in why("oldest", found["bulk"])
    assert "not known" in why("oldest", found["mail"])


def test_what_holds_a_queue_back() -> None:
    rows = [row(held="cap", max_in_flight=2), row(held="cap", max_in_flight=2), row()]
    queue = snapshot({str(n): {"bulk": each} for n, each in enumerate(rows)}).queues["bulk"]
    assert why("reasons", queue) == "cap at 2 of 3"
    assert why("limits", queue) == "at most 2 at once"
    assert "at 2 of 3 workers" in why("held", queue)


def test_a_target_that_is_foreseen() -> None:
    """Only queues that are active count, at each worker those that it has."""
    workers = {
        "a": {
            "bulk": row(quantum=10.0, target_share=0.25, cost_per_second=1.0),
            "mail": row(quantum=30.0, target_share=0.75, cost_per_second=1.0),
            "idle": row(quantum=999.0),
        },
        "other": {"rest": row(target_share=1.0, cost_per_second=50.0)},
    }
    assert foreseen_target(snapshot(workers), "bulk", 90.0) == pytest.approx(0.75)
    assert foreseen_target(snapshot(workers), "idle", 40.0) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (row(target_share=0.5, share=0.5), "it is as it should be"),
        (row(target_share=0.1, share=0.5), "what they leave goes to those"),
        (row(target_share=0.5, share=0.1, held="cap"), "max_in_flight"),
        (row(target_share=0.5, share=0.1, buffered=9), "higher class"),
        (row(target_share=0.5, share=0.1), "left the rest to others"),
        (row(), "it had nothing"),
    ],
)
def test_why_a_share_is_what_it_is(queue: Figures, said: str) -> None:
    assert said in why("share", snapshot({"a": {"q": queue}}).queues["q"])


# History --------------------------------------------------------------------


def test_lines_end_with_now_and_have_gaps() -> None:
    said = [
        {"always": row(share=number / 10)} | ({"late": row()} if number >= 3 else {})
        for number in range(5)
    ]
    history = drawn(said, _TICKS=3)
    told = history.lines(["always", "late", "never"], ["share", "backlog"])
    assert told["times"] == sorted(told["times"])
    assert told["lines"][::2] == [[0.2, 0.3, 0.4], [None, 0.0, 0.0], [None] * 3]
    assert told["lines"][1::2] == [[0.0] * 3, [None, 0.0, 0.0], [None] * 3]
    assert history.lines(["late"], ["share"], slice(-1, None))["lines"] == [[0.0]]


def test_lines_are_of_so_many_queues_and_ticks() -> None:
    history = drawn([{"one": row(), "two": row()}] * 20, _TICKS=2, _MOST=1)
    assert [list(rows) for _, rows in history.ticks] == [["one"]] * 2


def drawn(said: list[dict[str, Any]], **bounds: int) -> History:
    """What is kept of answers for the lines."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in bounds.items():
            patch.setattr(f"celery_fair.web.collector.{name}", value)
        answered = iter(said)
        collector = Collector(lambda: answers({"a": next(answered)}), KnownDepths())
        for _ in said:
            collector.take()
    return collector.history


# The collector --------------------------------------------------------------


def test_workers_are_asked_once_however_many_look() -> None:
    numbers, begun, go, seen = count(1), Event(), Event(), Event()

    def ask() -> Answers:
        number = next(numbers)
        if number == 2:
            begun.set()
            assert go.wait(30)
        elif number == 3:
            assert seen.wait(30)
        return answers({"a": {"bulk": row(served=number)}})

    collector = Collector(ask, KnownDepths(), every=0.0)

    async def look() -> list[int]:
        first = [(await collector.after(0)).number for _ in range(3)]
        waiting = [asyncio.ensure_future(collector.after(1)) for _ in range(50)]
        await asyncio.to_thread(begun.wait, 30)
        assert [collector.look().number for _ in range(50)] == [1] * 50
        go.set()
        return first + [each.number for each in await asyncio.gather(*waiting)]

    collector.start()
    try:
        numbers_seen = asyncio.run(look())
    finally:
        go.set()
        collector.close()
        seen.set()
        collector._thread.join(30)
    assert numbers_seen[:3] == [1, 1, 1]
    assert set(numbers_seen[3:]) == {2}


def test_no_answer_is_said() -> None:
    def ask() -> Answers:
        raise NoAnswerError("nobody is there")

    site = site_of({})
    site.collector._ask = ask  # type: ignore[method-assign]
    site.collector.take()
    text = Visit(site).get("/queues").text
    assert "No worker answers." in text
    assert "nobody is there" in text


def test_whatever_a_transport_raises_the_next_question_is_asked() -> None:
    said = iter([ValueError("secret"), answers({"a": {"bulk": row()}})])

    def ask() -> Answers:
        each = next(said)
        if isinstance(each, Exception):
            raise each
        return each

    collector = Collector(ask, KnownDepths())
    assert "ValueError" in collector.take().trouble
    assert collector.take().workers.keys() == {"a"}


def test_an_answer_that_is_none_is_said_and_the_next_is_read() -> None:
    said = iter([answers({"a": {"bulk": {"quantum": 1}}}), answers({"a": {"bulk": row()}})])
    collector = Collector(lambda: next(said), KnownDepths())
    assert "KeyError" in collector.take().trouble
    assert collector.take().queues.keys() == {"bulk"}


def test_who_answers_no_more_is_named() -> None:
    said = iter([answers({"a": {"bulk": row()}, "b": {}}), answers({"b": {}})])
    collector = Collector(lambda: next(said), KnownDepths())
    collector.take()
    assert collector.take().silent.keys() == {"a"}


def test_the_broker_is_asked_about_queues_that_are_consumed() -> None:
    depths = KnownDepths({"bulk": 70})
    collector = Collector(lambda: answers({"a": {"bulk": row(), "new": row()}}), depths)
    found = collector.take()
    assert depths.asked == {"bulk", "new"}
    assert [found.queues[name]["waiting_at_broker"] for name in ("bulk", "new")] == [70, None]


# Looks ----------------------------------------------------------------------


def test_who_has_seen_an_answer_gets_it_while_another_asks() -> None:
    asked, begun, go, times = count(1), Event(), Event(), iter(range(1000))

    def ask(name: str) -> str:
        number = next(asked)
        if number == 2:
            begun.set()
            assert go.wait(30)
        return f"{name} {number}"

    looks = Looks(asking(ask), lambda: 10.0 * next(times))
    assert said(looks, "a") == "a 1"
    with ThreadPoolExecutor() as threads:
        second = threads.submit(said, looks, "a")
        assert begun.wait(30)
        assert said(looks, "a") == "a 1"
        go.set()
        assert second.result(30) == "a 2"


def test_a_look_is_shown_to_others_and_rests_as_long_as_it_took() -> None:
    now, took = [0.0], [0.1]
    numbers = count(1)

    def ask(name: str) -> int:
        now[0] += took[0]
        return next(numbers)

    looks = Looks(asking(ask), lambda: now[0])
    assert [said(looks, "a") for _ in range(3)] == [1, 1, 1]
    now[0] += 1.0
    took[0] = 5.0
    assert said(looks, "a") == 2
    now[0] += 4.9
    assert said(looks, "a") == 2
    assert said(looks, "b") == 3
    now[0] += 61.0
    assert said(looks, "b") == 4
    assert list(looks._known) == ["b"]


def test_what_is_looked_at_goes_on_by_one_connection_until_that_fails_or_is_left_alone() -> None:
    now, begun, ended = [0.0], count(1), []

    def ask(name: str) -> Iterator[dict[str, Any]]:
        number = next(begun)
        try:
            yield {"said": number}
            yield {"said": number}
            raise ValueError("gone")
        finally:
            ended.append(number)

    looks = Looks(ask, lambda: now[0])

    def later(seconds: float) -> Answer:
        now[0] += seconds
        return looks.of("a")

    assert [later(2.0).found["said"] for _ in range(2)] == [1, 1]
    assert later(2.0).trouble == "gone"
    assert later(2.0).found["said"] == 2
    assert ended == [1]
    assert later(90.0).found["said"] == 3
    gc.collect()
    assert ended == [1, 2]


def asking(ask: Callable[[str], Any]) -> Callable[[str], Iterator[dict[str, Any]]]:
    """What asks again and again."""

    def asked(name: str) -> Iterator[dict[str, Any]]:
        while True:
            yield {"said": ask(name)}

    return asked


def said(looks: Looks, name: str) -> Any:
    return looks.of(name).found["said"]


# Lists ----------------------------------------------------------------------


def test_a_long_list_is_shown_a_hundred_at_a_time() -> None:
    names = [f"queue-{number:03}" for number in range(250)]
    rows = [{"name": name, "end": name[-1], "rare": None} for name in names]
    rows[7]["rare"] = "7"

    def asked(**query: str) -> Listing:
        return listing(rows, query, ("name", "end", "rare"), "name")

    def shown(**query: str) -> Any:
        found = asked(**query)
        return found._replace(rows=[row["name"] for row in found.rows])

    assert shown().rows == names[:100]
    assert shown(page="3").rows == names[200:]
    assert shown(page="99").page == 3
    assert shown(page="-1").page == shown(page="x").page == shown(page="²").page == 1
    assert shown(sort="-name").rows[0] == "queue-249"
    assert shown(sort="other").rows == shown().rows
    assert shown(q="QUEUE-24").rows == names[240:250]
    assert shown(sort="-end").rows[:2] == ["queue-009", "queue-019"]
    assert shown(sort="-rare").rows[:2] == ["queue-007", "queue-000"]
