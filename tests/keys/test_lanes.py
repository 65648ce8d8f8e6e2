"""Lanes: what RabbitMQ keeps of keys that publish in floods."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result
from kombu import Connection, Exchange, Queue

from celery_fair.brokers.amqp_mover import AmqpMover
from celery_fair.brokers.depths import depths_of
from celery_fair.brokers.lanes import LaneChooser, Lanes, lane
from celery_fair.cli import fair, key_messages
from celery_fair.routing import floods
from celery_fair.settings import KeyedQueue
from celery_fair.worker.queues.keyed.lane_watch import LaneWatch
from tests.brokers import RabbitMQ, Space
from tests.integration.gate import closing_gate
from tests.keys.tenants import KEYED, QUEUE, Tenants, at, left, publisher, send
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.web.served import serving
from tests.workers import StartWorker

QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture
def space(rabbitmq_space: Space) -> Space:
    return rabbitmq_space


@pytest.fixture
def app(space: Space, monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    """A publisher whose floods have two messages in front, however long they take to publish."""
    monkeypatch.setattr(floods, "_RATE", 1e-6)
    with publisher(space.url, broker_transport_options={"confirm_publish": True}) as app:
        yield app


def test_threads_publish_for_more_keys_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key's first message goes to the queue itself, and none is in another's way."""
    monkeypatch.setattr(floods, "_MOST_KEYS", 10)
    asked = floods.Floods(Celery(set_as_current=False).amqp, lambda: 0.0)
    connection, keyed = Connection("amqp://"), KeyedQueue(QUEUE)

    def ask(thread: int) -> set[Queue | None]:
        keys = [f"{thread}.{number}" for number in range(5_000)]
        return {asked.lane(connection, keyed, key) for key in keys}

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            done = [threads.submit(ask, number) for number in range(8)]
            assert [each.result() for each in done] == [{None}] * 8
    finally:
        sys.setswitchinterval(interval)


def waiting(space: Space) -> dict[str, int]:
    """Messages in the queue and its lanes, those that have any."""
    depths = space.depths()
    names = [name for name in depths if name == QUEUE or name.startswith(f"{QUEUE}.fair.")]
    return {name: depths[name].ready for name in names if depths[name].ready}


def lanes(space: Space) -> int:
    return sum(name.startswith(f"{QUEUE}.fair.") for name in space.depths())


def delete(space: Space, *numbers: int) -> None:
    """Delete lanes, as somebody may by hand."""
    with Connection(space.url) as connection:
        for number in numbers:
            connection.default_channel.queue_delete(lane(Queue(QUEUE), number).name)


def without_rights(rabbitmq: RabbitMQ, space: Space) -> str:
    """Return the URL of a user who may publish, and declare nothing."""
    return rabbitmq.add_user(f"shop-{uuid4()}", space.place, "^$", ".*", "^$")


CASES = [
    pytest.param(pool, arguments, id=f"{pool}-{'quorum' if arguments else 'classic'}")
    for pool in ("solo", "threads", "prefork", "gevent", "eventlet")
    for arguments in ({}, QUORUM)
]


@pytest.mark.parametrize(("pool", "arguments"), CASES)
def test_who_was_quiet_is_next_however_much_was_published_before(
    space: Space, start_worker: StartWorker, pool: str, arguments: dict[str, Any]
) -> None:
    queues, began = [Queue(QUEUE, queue_arguments=arguments)], time.monotonic()
    with publisher(space.url, task_queues=queues) as app:
        floods, quiet = send(app, "a", 1000) + send(app, "b", 1000), send(app, "quiet")
    seconds = time.monotonic() - began
    wait_equal(lambda: left(space), 2001)  # publishers do not wait for a confirmation
    in_front = waiting(space)[QUEUE]
    assert in_front <= 1 + 2 * (2 + seconds)  # of each flood two at once, and one a second
    options: dict[str, Any] = {"queue_arguments": arguments, "conf": KEYED, "quiet": False}
    worker = start_worker(
        space, pool=pool, concurrency=2, queues=[QUEUE], loglevel="INFO", **options
    )
    starts = [record.id for record in sorted(worker.records.started.wait_once(floods + quiet))]
    assert starts.index(quiet[0]) < in_front + 2
    whose = [task in floods[:1000] for task in starts]
    found = max(at(whose, True, 20), at(whose, False, 20))
    assert whose[found : found + 1000].count(True) == pytest.approx(500, abs=20)
    wait_equal(lambda: left(space), 0)
    assert worker.stop() == 0


def test_a_flood_of_publishers_without_us_is_sorted(
    space: Space, start_worker: StartWorker
) -> None:
    """While all slots are busy, what is in front of a quiet tenant's message is moved away."""
    tenants = Tenants(space.url)
    worker = start_worker(space, pool="threads", concurrency=2, queues=[QUEUE], conf=KEYED)
    with closing_gate() as gate:
        tenants.publish({"flood": 2}, "hold", [str(gate.path)])
        worker.records.started.wait(2)
        ids = tenants.publish({"flood": 600, "other": 600, "quiet": 1})
        wait_for(lambda: waiting(space).get(QUEUE, 0) <= 100, 60, worker.log)
    worker.records.started.wait_once(ids)
    order = tenants.started(worker.records.started)[2:]
    assert order.index("quiet") <= 102  # of the last hundred one at least is moved with each start
    found = max(at(order, "flood", 20), at(order, "other", 20))
    assert order[found : found + 800].count("other") == pytest.approx(400, abs=16)
    wait_equal(lambda: left(space), 0)


def test_as_many_lanes_as_keys_with_a_backlog(
    space: Space, start_worker: StartWorker, app: Celery
) -> None:
    """And some more, if of many lanes in use eight at random have none that is empty."""
    ids = [task for key in range(40) for task in send(app, f"key{key}", 20)]
    assert lanes(space) == 40
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    worker.records.started.wait_once(ids)
    again = [task for key in range(40) for task in send(app, f"other{key}", 20)]
    worker.records.started.wait_once(again)
    wait_equal(lambda: left(space), 0)
    assert lanes(space) <= 60


def test_a_lane_that_was_given_away_just_now_only_seems_empty(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was published to it may be on its way still, and two keys would share it."""
    monkeypatch.setattr("celery_fair.brokers.lanes._UNSEEN", 60)
    with publisher(space.url) as app, app.connection_for_write() as connection:
        queue = app.amqp.queues[QUEUE]
        with connection.channel() as channel:
            queue(channel).declare()
        with closing(LaneChooser(Lanes(connection.clone, queue, 100))) as chooser:
            assert len({chooser.lane(f"key{n}") for n in range(20)}) == 20
            assert chooser.lane("key0") == chooser.lane("key0")


def test_no_more_lanes_than_allowed(space: Space, start_worker: StartWorker) -> None:
    few = {"fair_keys": {QUEUE: {"lanes": 2}}}
    with publisher(space.url, **few) as app:
        ids = [task for key in range(10) for task in send(app, f"key{key}", 30)]
    worker = start_worker(space, queues=[QUEUE], conf=few)
    worker.records.started.wait_once(ids)
    assert lanes(space) == 2


def test_a_publisher_who_may_declare_nothing(
    rabbitmq: RabbitMQ, space: Space, start_worker: StartWorker
) -> None:
    """What lanes there are it may use, if any; the rest goes to the queue."""
    start = partial(start_worker, space, queues=[QUEUE], conf=KEYED)
    first = start()
    wait_equal(lambda: lanes(space), 8)
    assert first.stop() == 0  # it may add lanes
    delete(space, 0, 5)
    url = without_rights(rabbitmq, space)
    with publisher(url, task_queues=[Queue(QUEUE, no_declare=True)]) as app:
        ids = [task for key in range(10) for task in send(app, f"key{key}", 30)]
    assert lanes(space) == 6
    wait_equal(lambda: left(space), len(ids))
    assert sum(waiting(space).values()) - waiting(space)[QUEUE] >= 10 * 20
    start().records.started.wait_once(ids)


def test_a_lane_that_is_gone_is_no_keys_any_more(
    rabbitmq: RabbitMQ, space: Space, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a publisher who may not make it again; or its node is down."""
    monkeypatch.setattr("celery_fair.brokers.lanes._REST", 0)
    queue, url = Queue(QUEUE), without_rights(rabbitmq, space)
    with closing(Lanes(app.connection_for_write, queue, 20)) as made:
        assert [made.add() for _ in range(3)] == [0, 1, 2]
    with closing(LaneChooser(Lanes(partial(Connection, url), queue, 20))) as chooser:
        gone = chooser.lane("a")
        assert gone is not None
        assert chooser.lane("a") == gone
        delete(space, gone)
        kept = chooser.lane("a")
        assert kept in {0, 1, 2} - {gone}
        assert chooser.lane("a") == kept
        delete(space, *{0, 1, 2} - {gone})
        assert chooser.lane("a") is None


def test_keys_share_the_lanes_that_there_is_room_for(
    rabbitmq: RabbitMQ, space: Space, app: Celery
) -> None:
    """Or stay in the queue itself, where the virtual host may have no more queues."""
    sent = len(send(app, "a"))
    for most in (1, 2, 3):  # the queue itself, what counts lanes, a lane
        limits = f'<<"{space.place}">>, <<"{{\\"max-queues\\": {most}}}">>, <<"tests">>'
        assert rabbitmq.control("eval", f"rabbit_vhost_limit:parse_set({limits}).") == "ok"
        with publisher(space.url, broker_transport_options={"confirm_publish": True}) as other:
            for key in ("b", "c"):
                sent += len(send(other, key, 20))
        assert sum(waiting(space).values()) == sent
    assert waiting(space)["jobs.fair.0"] == 2 * 18


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
def test_a_policy_that_bounds_what_counts_the_lanes(
    rabbitmq: RabbitMQ, space: Space, start_worker: StartWorker, app: Celery, overflow: str
) -> None:
    """No lane is used that workers would not know of."""
    bounds = f'[{{<<"max-length">>, 3}}, {{<<"overflow">>, <<"{overflow}">>}}]'
    policy = f'<<"{space.place}">>, <<"bounds">>, <<"{QUEUE}.fair$">>, {bounds}'
    rabbitmq.control("eval", f'rabbit_policy:set({policy}, 0, <<"queues">>, <<"tests">>).')
    ids = [task for key in range(5) for task in send(app, f"key{key}", 20)]
    assert waiting(space).keys() == {QUEUE, *(f"{QUEUE}.fair.{number}" for number in range(3))}
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    worker.records.started.wait_once(ids)


@pytest.mark.parametrize("is_sure", [True, False])
def test_what_has_no_room_in_its_lane_goes_back(
    rabbitmq: RabbitMQ, space: Space, app: Celery, monkeypatch: pytest.MonkeyPatch, is_sure: bool
) -> None:
    """As a copy, if the broker is sure to have none in the lane; and none is sorted for a while."""
    bounds = '[{<<"max-length">>, 1}, {<<"overflow">>, <<"reject-publish">>}]'
    policy = f'<<"{space.place}">>, <<"bounds">>, <<"{QUEUE}.fair.[0-9]">>, {bounds}'
    rabbitmq.control("eval", f'rabbit_policy:set({policy}, 0, <<"queues">>, <<"tests">>).')
    publish(space.url, {QUEUE: 150}, headers={"x-fair-key": "a"}).all()
    moved, looks, move, survey = list[str](), list[int](), AmqpMover.move, Lanes.survey

    def noted(mover: AmqpMover, message: Any, queue: str) -> None:
        moved.append(queue)
        move(mover, message, queue)

    def counted(lanes: Lanes, numbers: Sequence[int]) -> Any:
        looks.append(len(moved))
        return survey(lanes, numbers)

    def unconfirmed(mover: AmqpMover, *_: Any) -> None:
        mover._sent = True
        raise TimeoutError

    monkeypatch.setattr(AmqpMover, "move", noted)
    monkeypatch.setattr(Lanes, "survey", counted)
    if not is_sure:
        monkeypatch.setattr(AmqpMover, "_send", unconfirmed)
    queue = app.amqp.queues[QUEUE]
    with app.connection_for_write() as connection:
        ours, front = (Lanes(connection.clone, queue, 20) for _ in range(2))
        watch = LaneWatch(ours, front, AmqpMover("dead-letters", connection))
        watch.start(lambda: None)
        try:
            wait_for(lambda: QUEUE in moved and looks.count(len(moved)) > 2, 30, lambda: str(moved))
            wait_equal(lambda: space.depths()[QUEUE].unacked, 0)
        finally:
            watch.stop()
        assert moved.count(QUEUE) == 1
        waits = waiting(space)
        assert sum(waits.values()) == 150
        get = partial(connection.default_channel.basic_get, QUEUE, no_ack=True)
        flags = [get().delivery_info["redelivered"] for _ in range(waits[QUEUE])]
        assert sum(flags) == (not is_sure)


def test_a_front_that_is_gone_is_not_made_again_in_passing(space: Space, app: Celery) -> None:
    """Its worker declares it, and binds it, which who looks at it would not."""
    queue = Queue(QUEUE, routing_key=QUEUE)
    lanes = Lanes(app.connection_for_write, queue, 20)
    assert lanes.front() == 0
    assert QUEUE not in space.depths()
    publish(space.url, {QUEUE: 3})
    assert lanes.front() == 3
    lanes.close()


def test_a_lane_that_was_deleted_hides_none(space: Space, app: Celery) -> None:
    """Of those that are asked about in one go."""
    publish(space.url, {QUEUE: 3})
    lanes = Lanes(app.connection_for_write, Queue(QUEUE, routing_key=QUEUE), 20)
    assert [lanes.add() for _ in range(3)] == [0, 1, 2]
    publish(space.url, {lane(Queue(QUEUE), 2).name: 5})
    assert lanes.survey([0, 1, 2]) == (3, {0: 0, 1: 0, 2: 5})
    lanes.channel.queue_delete(lane(Queue(QUEUE), 0).name)
    assert lanes.survey([0, 1, 2]) == (3, {0: 0, 1: 0, 2: 5})
    assert lanes.survey([0, 1, 2]) == (3, {0: 0, 1: 0, 2: 5})
    assert lanes.count == 3
    lanes.close()


def test_lanes_that_somebody_has_deleted(
    space: Space, start_worker: StartWorker, app: Celery
) -> None:
    """Their messages are gone with them; no others are, and what is published next arrives."""
    worker = start_worker(space, pool="threads", concurrency=2, queues=[QUEUE], conf=KEYED)
    with closing_gate() as gate:
        app.send_task("hold", (0, str(gate.path)), fair_key="a")
        app.send_task("hold", (0, str(gate.path)), fair_key="a")
        worker.records.started.wait(2)
        send(app, "a", 50)
        kept = send(app, "b", 50)
        number = max(waiting(space).items(), key=lambda item: item[1])[0]
        with app.connection_for_write() as connection:
            deleted = connection.default_channel.queue_delete(number)
    assert deleted >= 40
    wait_for(lambda: left(space) == 0, 60, worker.log)

    def started() -> int:
        return len({record.id for record in worker.records.started.read()}.intersection(kept))

    wait_for(lambda: started() in {50, 50 - deleted}, 60, worker.log)  # some may be on their way
    with publisher(space.url) as other:
        worker.records.started.wait_ids(send(other, "a", 50) + send(other, "b", 50))
    assert worker.stop() == 0


@pytest.mark.parametrize("gone", [3, 12])
def test_a_register_that_somebody_has_emptied(
    space: Space, start_worker: StartWorker, app: Celery, gone: int
) -> None:
    ids = [task for key in range(12) for task in send(app, f"key{key}", 10)]
    with app.connection_for_write() as connection:
        for _ in range(gone):
            assert connection.default_channel.basic_get(f"{QUEUE}.fair", no_ack=True)
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    worker.records.started.wait_once(ids)
    assert space.depths()[f"{QUEUE}.fair"].ready >= 12


@pytest.mark.parametrize("gone", [3, 12])
def test_lanes_are_found_that_no_register_has(space: Space, app: Celery, gone: int) -> None:
    """By a worker that asks for no lane itself, as who adds one comes upon those, too."""
    for key in range(12):
        send(app, f"key{key}", 10)
    with app.connection_for_write() as connection:
        for _ in range(gone):
            assert connection.default_channel.basic_get(f"{QUEUE}.fair", no_ack=True)
        mover = AmqpMover("dead-letters", connection)
        lanes = Lanes(app.connection_for_write, app.amqp.queues[QUEUE], 20)
        watch, found = LaneWatch(lanes, lanes, mover), Counter[int]()

        def depths() -> dict[int, int]:
            for number in list(watch.found):
                depth, _ = watch.found.pop(number)
                found[number] = found[number] or depth
            return dict(found)

        watch.start(lambda: None)
        try:
            wait_equal(depths, dict.fromkeys(range(12), 8))
        finally:
            watch.stop()


def test_a_retry_keeps_its_key_and_comes_by_its_queue(
    space: Space, start_worker: StartWorker, app: Celery
) -> None:
    send(app, "a", 5)
    ids = [app.send_task("again", (n,), fair_key="a").id for n in range(20)]
    assert len(waiting(space)) == 2
    worker = start_worker(space, app="tests.apps.levels", queues=[QUEUE], conf=KEYED)
    records = worker.records.started.wait_once(ids)
    assert {record.queue for record in records} == {QUEUE}


def test_what_is_put_off_and_what_expires(
    space: Space, start_worker: StartWorker, app: Celery
) -> None:
    gone = send(app, "a", 20, expires=0.05)
    late = send(app, "b", 20, countdown=1.5)
    worker = start_worker(space, pool="threads", concurrency=2, queues=[QUEUE], conf=KEYED)
    worker.records.started.wait_once(late)
    wait_equal(lambda: left(space), 0)
    assert not worker.records.started.times(gone)


@pytest.mark.wide
def test_rabbitmq_is_killed_and_returns(own_rabbitmq: RabbitMQ, start_worker: StartWorker) -> None:
    space = own_rabbitmq.space()
    tenants = Tenants(space.url, installed=True)
    ids = tenants.publish({"a": 300, "b/1": 300, "b/2": 300, "c": 5}, "nap", (0.002,))
    worker = start_worker(space, pool="threads", concurrency=4, queues=[QUEUE], conf=KEYED)
    worker.records.started.wait(100)
    own_rabbitmq.kill()
    own_rabbitmq.start()
    own_rabbitmq.wait_ready()
    expected = {*ids, *tenants.publish({"a": 100, "d": 10})}
    started = worker.records.started
    wait_for(lambda: expected <= {record.id for record in started.read()}, 60, worker.log)
    wait_equal(lambda: left(space), 0)
    assert worker.stop() == 0


def test_a_forks_child_publishes_by_connections_of_its_own(
    space: Space, start_worker: StartWorker, app: Celery
) -> None:
    ids = send(app, "a", 20)
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        app._after_fork()
        os.write(writes, "\n".join(send(app, "a", 20)).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    ids += os.read(reads, 65536).decode().split()
    os.close(reads)
    os.close(writes)
    ids += send(app, "b", 20)
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    worker.records.started.wait_once(ids)


@pytest.mark.wide
def test_a_worker_is_killed_while_it_sorts(
    space: Space,
    start_worker: StartWorker,
    dead_letters: Callable[[], dict[str, dict[str, Any]]],
) -> None:
    """What was on its way is there twice, and starts once: the other one is a dead letter."""
    options: dict[str, Any] = {"app": "tests.apps.once", "queues": [QUEUE], "conf": KEYED}
    ids = publish(space.url, {QUEUE: 900}, "before", headers={"x-fair-key": "a"}).all()
    ids += publish(space.url, {QUEUE: 900}, "after", headers={"x-fair-key": "b"}).all()
    for _ in range(3):
        worker = start_worker(space, pool="threads", concurrency=2, **options)
        so_far = len(worker.records.started)
        wait_for(lambda: len(waiting(space)) > 1, 30, worker.log)
        worker.records.started.wait(so_far + 20)
        worker.kill()
        worker.wait()
    worker = start_worker(space, pool="threads", concurrency=2, **options)
    wait_equal(lambda: left(space), 0, 90)
    assert not worker.records.started.repeated()
    started = {record.id for record in worker.records.started.read()}
    assert len(set(ids) - started - set(dead_letters())) <= 3 * 2  # about to start, in each slot
    # What ran in each slot, or was to; the front's first message, and the one that was moved.
    assert len(dead_letters()) <= 3 * (2 + 2 + 1 + 1)


def test_what_was_delivered_before_is_so_in_its_lane(
    space: Space,
    start_worker: StartWorker,
    dead_letters: Callable[[], dict[str, dict[str, Any]]],
) -> None:
    flood = publish(space.url, {QUEUE: 200}, "before", headers={"x-fair-key": "a"}).all()
    fresh = publish(space.url, {QUEUE: 200}, "before", headers={"x-fair-key": "b"}).all()
    with Connection(space.url) as other:
        for _ in flood:
            other.default_channel.basic_get(QUEUE)
    worker = start_worker(space, app="tests.apps.once", queues=[QUEUE], conf=KEYED)
    wait_equal(lambda: left(space), 0, 90)
    worker.records.started.wait_once(fresh)
    assert len(worker.records.started) == len(fresh)
    wait_equal(lambda: set(dead_letters()), set(flood))


def test_lanes_are_counted_by_all_who_add_them(space: Space, app: Celery) -> None:
    queue = app.amqp.queues[QUEUE]
    ours, theirs = (Lanes(app.connection_for_write, queue, 20) for _ in range(2))
    try:
        assert (ours.add(), theirs.add()) == (0, 1)
        assert ours.counted() == 2
        assert ours.depths([0, 1]) == {0: 0, 1: 0}
        with app.connection_for_write() as connection:
            connection.default_channel.queue_delete(lane(queue, 0).name)
            connection.SimpleQueue(lane(queue, 1)).put("one")
        assert theirs.depths([0, 1]) == {0: 0, 1: 1}
        assert theirs.empty() == 0
        assert lanes(space) == 2
    finally:
        ours.close()
        theirs.close()


def test_lanes_for_keys_that_wait_are_nobody_elses(space: Space, app: Celery) -> None:
    """Who finds no lane empty shares one of the usual ones."""
    queue = app.amqp.queues[QUEUE]
    with closing(Lanes(app.connection_for_write, queue, 1)) as few:
        assert (few.add(), few.add()) == (0, None)
        assert (few.add(beyond=True), few.add(beyond=True)) == (1, None)
        with app.connection_for_write() as connection:
            connection.SimpleQueue(lane(queue, 0)).put("one")
        assert few.empty() == 0
        assert lanes(space) == 2


@pytest.fixture
def run(space: Space) -> Iterator[Callable[..., Result]]:
    with publisher(space.url) as app:
        context = CLIContext(app=app, no_color=True, workdir=None)
        yield lambda *words: CliRunner().invoke(fair, words, obj=context)


def test_what_waits_is_shown_and_put_back(
    space: Space, start_worker: StartWorker, app: Celery, run: Callable[..., Result]
) -> None:
    ids = send(app, "a", 32) + send(app, "b", 22)
    shown = run("keys", "list", QUEUE)
    assert shown.exit_code == 0, shown.output
    assert shown.output == (
        "jobs: 0 keys have messages waiting, and 54 messages are unsorted yet; 4 wait in the queue"
        " itself, the others in its 2 lanes\n"
    )
    document = json.loads(run("keys", "list", QUEUE, "--json").stdout)
    counts = {"front": 4, "lanes": 2, "waiting": 54, "unsorted": 54, "keys": 0, "top": []}
    assert document == counts
    merged = run("keys", "merge", QUEUE)
    assert "50 messages are back in jobs" in merged.output
    wait_equal(lambda: waiting(space), {QUEUE: 54})
    worker = start_worker(space, queues=[QUEUE])
    order = [record.id for record in sorted(worker.records.started.wait_once(ids))]
    assert [task for task in order[4:] if task in ids[:32]] == ids[2:32]


def on_the_page(address: str) -> str:
    """How many messages wait, as the page in a browser says."""
    text = httpx.get(f"{address}/queues").text
    found = re.search(r'data-label="Waiting"><[^>]*>([^<]*)<', text)
    return text if found is None else found[1]


def test_whose_messages_wait_is_told_by_workers(
    space: Space,
    start_worker: StartWorker,
    app: Celery,
    run: Callable[..., Result],
    tmp_path: Path,
) -> None:
    with closing_gate() as gate:
        ids = []
        for key, count in (("a", 40), ("b", 30)):
            for number in range(count):
                args = [number, str(gate.path)]
                ids.append(app.send_task("hold", args, fair_key=(key, number % 2)).id)
        with app.connection_for_read() as connection:  # or these take slots, which then ask no more
            while (message := connection.default_channel.basic_get(QUEUE, no_ack=True)) is not None:
                ids.remove(message.headers["id"])
        options: dict[str, Any] = {"concurrency": 5, "queues": [QUEUE], "conf": KEYED}
        workers = [start_worker(space, pool="threads", **options) for _ in range(2)]
        workers[0].records.started.wait(10)

        def told() -> Any:
            """Once all lanes are known (what is in others is unsorted), and both have answered."""
            found = json.loads(run("keys", "list", QUEUE, "--json").stdout)
            running = sum(row["running"] for row in found["top"])
            return None if found["unsorted"] or running < 10 else found

        document = wait_for(told, 60, "whose messages are in lanes")
        rows = {row["tenant"]: row for row in document["top"]}
        waiting = sum(row["waiting"] for row in rows.values())
        assert waiting == document["waiting"] == len(ids) - 10
        assert rows["a"]["waiting"] >= rows["b"]["waiting"] >= 13
        assert sum(row["running"] for row in rows.values()) == 10
        assert sum(row["started"] for row in rows.values()) == 10
        assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
        assert {row["target"] for row in rows.values()} == {0.5}
        with serving(space, KEYED, tmp_path) as address:
            wait_equal(lambda: on_the_page(address), str(waiting))
        said = run("keys", "show", QUEUE, "a").output.splitlines()
        waits = rows["a"]["waiting"]
        assert said[0].startswith(f"a has {waits} messages waiting in jobs: its turn comes by its")
        assert list(rows) == ["a", "b"]
    workers[0].records.started.wait_once(ids)


def test_putting_back_ends_while_others_sort(
    app: Celery, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They put messages into lanes as fast as they are taken out."""
    move, times = AmqpMover.move, 0
    send(app, "a", 32)
    with app.connection_for_write() as connection:
        again = connection.SimpleQueue(lane(app.amqp.queues[QUEUE], 0), no_ack=True)

        def beside_a_sorter(mover: AmqpMover, *args: Any, **options: Any) -> None:
            nonlocal times
            times += 1
            assert times < 100, "it does not end"
            move(mover, *args, **options)
            again.put("again")

        monkeypatch.setattr(AmqpMover, "move", beside_a_sorter)
        connection.default_channel.confirm_select()
        merged = run("keys", "merge", QUEUE)
    assert merged.exit_code == 1
    assert "30 messages are back in jobs\n" in merged.stdout
    assert " wait in lanes again: workers with fair_keys, or publishers" in merged.stdout


@pytest.mark.parametrize("arguments", [{}, QUORUM], ids=["classic", "quorum"])
def test_empty_lanes_are_removed(
    space: Space, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their marks, from the last to the first that is not empty; no message is."""
    queue = Queue(QUEUE, queue_arguments=arguments)
    with publisher(space.url, task_queues=[queue]) as app:

        def run(*words: str) -> Result:
            context = CLIContext(app=app, no_color=True, workdir=None)
            return CliRunner().invoke(fair, ("keys", *words), obj=context)

        for count, key in enumerate(("a", "b", "c"), 1):
            send(app, key, 12)
            # Publishers do not wait for a confirmation: a lane that looks empty still is chosen.
            wait_equal(lambda: sum(name != QUEUE for name in waiting(space)), count)
        with app.connection_for_write() as connection:
            for number in (0, 2):
                connection.default_channel.queue_purge(f"jobs.fair.{number}")
        assert run("shrink", QUEUE).exit_code == 2  # not asked, and nobody says that all is stopped
        with monkeypatch.context() as interrupted:
            interrupted.setattr(key_messages, "stoppable", lambda: nullcontext(lambda: True))
            shrunk = run("shrink", QUEUE, "--yes")
        assert shrunk.exit_code == 1
        assert "s of jobs removed, 3 left\nthis was interrupted; say it again\n" in shrunk.stdout
        shrunk = run("shrink", QUEUE, "--yes")
        left = json.loads(run("list", QUEUE, "--json").stdout)["lanes"]
        assert (shrunk.exit_code, left) == (1, 2)
        assert "1 empty lane of jobs removed, 2 left" in shrunk.stdout
        assert "jobs.fair.1 is not empty" in shrunk.stdout
        waits = sum(waiting(space).values())
        run("merge", QUEUE)
        assert run("shrink", QUEUE, "--yes").exit_code == 0
        assert lanes(space) == 0
        wait_equal(lambda: sum(waiting(space).values()), waits)
        wait_equal(lambda: space.depths()["jobs.fair"].ready, 0)
    with publisher(space.url, task_queues=[queue]) as app:
        send(app, "d", 12)  # begins with the first again
    assert lanes(space) == 1


def test_all_that_waits_is_deleted(space: Space, app: Celery, run: Callable[..., Result]) -> None:
    ids = send(app, "a", 32) + send(app, "b", 22)
    wait_equal(lambda: sum(waiting(space).values()), len(ids))
    said = run("keys", "purge", QUEUE, "--all", "--yes").output
    assert said == f"{len(ids)} messages of jobs are purged\n"
    wait_equal(lambda: sum(waiting(space).values()), 0)
    assert lanes(space) == 2


def test_no_lane_is_removed_beside_a_worker(
    space: Space, start_worker: StartWorker, run: Callable[..., Result]
) -> None:
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    wait_equal(lambda: lanes(space), 8)
    refused = run("keys", "shrink", QUEUE, "--yes")
    assert refused.exit_code == 1
    assert f"{worker.hostname} runs, and consumes jobs; nothing was removed" in refused.output
    assert lanes(space) == 8


def test_what_waits_in_lanes_is_counted(space: Space, app: Celery) -> None:
    """And a lane that was deleted by hand hides no front."""
    ids = send(app, "a", 32) + send(app, "b", 22)
    with app.connection_for_write() as connection:
        assert depths_of(connection, [QUEUE, "none"], ()) == {QUEUE: 4}
        assert depths_of(connection, [QUEUE], [QUEUE]) == {QUEUE: len(ids)}
        connection.default_channel.queue_delete("jobs.fair.1")
        assert depths_of(connection, [QUEUE], [QUEUE]) == {QUEUE: 34}
        assert depths_of(connection, ["none"], ["none"]) == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("keys", "set", QUEUE, "acme", "weight=5"), "Set fair_key_store"),
        (("keys", "pause", QUEUE, "acme"), "Set fair_key_store"),
        (("keys", "drop", QUEUE, "acme", "--yes"), "cannot be told from the others"),
    ],
    ids=lambda words: words[1] if isinstance(words, tuple) else "",
)
def test_what_only_a_redis_keeps(
    run: Callable[..., Result], words: tuple[str, ...], said: str
) -> None:
    answer = run(*words)
    assert answer.exit_code == 1
    assert said.lower() in answer.output.lower()


def test_a_lane_is_as_the_queue_is_and_does_not_delete_itself() -> None:
    queue = Queue(
        QUEUE,
        Exchange(QUEUE, delivery_mode=1),
        max_priority=5,
        max_length=9,
        expires=60,
        queue_arguments={"x-queue-type": "classic", "x-expires": 60000},
    )
    one = lane(queue, 3)
    assert (one.name, one.routing_key, one.exchange.name) == ("jobs.fair.3", "jobs.fair.3", "")
    assert (one.max_priority, one.max_length, one.exchange.delivery_mode) == (5, 9, 1)
    assert (one.expires, one.queue_arguments) == (None, {"x-queue-type": "classic"})
