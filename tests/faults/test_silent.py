"""A broker that says nothing, while its connections last: as when a firewall forgets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from typing import Any

import pytest
from amqp import spec
from celery import Celery
from kombu import Connection
from kombu.transport.redis import Channel
from redis import exceptions as of_redis

from celery_fair.brokers.broker import ANSWERS, CONNECTS, bound_waits
from celery_fair.brokers.full_redis import let_work
from celery_fair.brokers.redis import Commands
from celery_fair.worker import patches
from celery_fair.worker.amqp_io.silence import SilenceWatch
from tests.brokers import Space
from tests.brokers.tls import TlsRabbitMQ, TlsRedis
from tests.conftest import running
from tests.faults.accounting import Allowed
from tests.faults.acts.worker import LOST
from tests.faults.proxy import Proxy
from tests.faults.scene import OPTIONS, Scene
from tests.integration.gate import closing_gate
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker

pytestmark = pytest.mark.newest

WITHIN = 60
"""Seconds: a generous bound on what else would hang."""
PATIENCE = {
    "redis": {"socket_timeout": 2},
    "rabbitmq": {"read_timeout": 2, "write_timeout": 2},
}
"""Options by which it does so for less long than by default."""


@contextmanager
def readied(space: Space, folder: Path, options: Mapping[str, Any], **kind: Any) -> Iterator[Scene]:
    """A scene with these transport options beside those of `PATIENCE`, until the block ends."""
    scene = Scene(space, folder, conf={OPTIONS: {**PATIENCE[space.kind], **options}}, **kind)
    try:
        scene.ready()
        yield scene
    finally:
        scene.end()


@pytest.fixture(params=["classic", "keyed", "gevent"])
def scene(space: Space, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    kind = "pool" if request.param == "gevent" else "queue_type"
    with readied(space, tmp_path, {}, **{kind: request.param}) as made:
        yield made


@pytest.fixture
def plain_scene(space: Space, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """With what a test says of its transport options."""
    with readied(space, tmp_path, getattr(request, "param", {})) as made:
        yield made


def test_a_worker_ends_when_it_is_asked_to(scene: Scene) -> None:
    worker = scene.worker
    scene.proxy.hold()
    worker.process.send(15)
    assert worker.process.wait(WITHIN) == 0, worker.log()


def test_what_has_not_answered_is_left_at_once(rabbitmq_space: Space) -> None:
    """Its channels, and the connection, wait for no answer to their closing."""
    patches.give_up_on_the_silent()
    with Proxy(rabbitmq_space) as proxy:
        connection = Connection(proxy.url, transport_options={"read_timeout": WITHIN})
        channels = [connection.channel() for _ in range(3)]
        connection.connection.read_timeout = 0.5  # its answers are not to come
        proxy.hold()
        with pytest.raises(connection.connection_errors, match="not answered in time"):
            channels[0].queue_declare("q")
        assert not connection.connected
        assert not any(channel.is_open for channel in channels)
        connection.release()


@pytest.mark.parametrize("asks_next", ["a command", "kombu", "who restores"])
def test_a_redis_that_has_not_answered_is_asked_in_a_hurry(
    redis_space: Space, monkeypatch: pytest.MonkeyPatch, asks_next: str
) -> None:
    """On that connection: whoever ends it would wait long for one answer after the other."""
    made = Channel._create_client

    def make(channel: Any, **options: Any) -> Any:
        return let_work(channel, made(channel, **options))

    def ask(by: str, channel: Any) -> object:
        if by == "who restores":
            return channel.client.transaction(lambda pipe: pipe.multi(), "key")
        return channel.client.get("key") if by == "kombu" else Commands(channel)("GET", "key")

    monkeypatch.setattr(Channel, "_create_client", make)
    options = {"socket_timeout": 2 * WITHIN}
    with (
        Proxy(redis_space) as proxy,
        Connection(proxy.url, transport_options=options) as connection,
    ):
        first, another = connection.channel(), connection.channel()
        first.pool.connection_kwargs["socket_timeout"] = 0.2
        assert ask("a command", first) is ask("kombu", another) is None
        proxy.hold()
        with pytest.raises(of_redis.TimeoutError):
            ask("a command", first)
        with pytest.raises(of_redis.TimeoutError):
            ask(asks_next, another)
        proxy.release()
        assert not ask(asks_next, another)


def test_whose_caller_waits_by_himself_is_left_to_him(rabbitmq_space: Space) -> None:
    """A connection of the user's own, without a bound of ours."""
    patches.give_up_on_the_silent()
    with Proxy(rabbitmq_space) as proxy, Connection(proxy.url) as connection:
        channel = connection.channel()
        connection.connection.sock.settimeout(0.5)
        proxy.hold()
        with pytest.raises(TimeoutError):
            channel.queue_declare("q")
        assert connection.connected
        connection.connection.sock.settimeout(WITHIN)
        proxy.release()
        channel.wait(spec.Queue.DeclareOk)  # the answer, late


def test_what_was_said_and_is_not_read_is_no_silence(rabbitmq_space: Space) -> None:
    """A task of a solo pool keeps the thread, and then timers come first."""
    now, later = [0.0], list[Callable[[], object]]()
    with Proxy(rabbitmq_space) as proxy:
        connection = Connection(proxy.url, transport_options={"read_timeout": ANSWERS})
        channel = connection.channel()
        SilenceWatch(channel, lambda _, call: later.append(call), clock=lambda: now[0])

        def look() -> None:
            now[0] += ANSWERS
            later.pop()()

        look()  # and ask
        wait_for(lambda: select([connection.connection.sock], [], [], 0)[0], WITHIN, "an answer")
        look()
        connection.drain_events(timeout=WITHIN)
        look()
        proxy.hold()
        look()
        with pytest.raises(connection.connection_errors, match="has said nothing for 10 s"):
            look()
        connection.collect()


def test_a_worker_has_these_bounds(space: Space, start_worker: StartWorker) -> None:
    conf = start_worker(space, queues=["a"]).inspect("conf", True)  # with defaults
    bounds = {"redis": "socket_timeout", "rabbitmq": "read_timeout"}
    assert conf["broker_transport_options"][bounds[space.kind]] == ANSWERS


def unanswered(scene: Scene) -> Allowed:
    """By each loss, on Redis: its acknowledgement may have arrived, and no answer to that."""
    losses = scene.worker.log().count(LOST) if scene.space.kind == "redis" else 0
    return Allowed(unstarted=losses, lost=losses)


def test_it_says_so_and_is_at_work_again(scene: Scene) -> None:
    """Nothing starts twice that may not, and no more is lost than by a cut."""
    with closing_gate() as gate:
        ids = scene.publish(20, "before", gate=str(gate.path))
        wait_for(scene.records.started.read, WITHIN, scene.worker.log)
        scene.proxy.hold()  # others are waiting to be asked for
    wait_for(lambda: LOST in scene.worker.log(), WITHIN, scene.worker.log)
    scene.proxy.release()
    scene.settle()
    scene.account(ids).check(unanswered(scene))


@pytest.mark.wide
@pytest.mark.parametrize("kind", [TlsRedis, TlsRabbitMQ])
def test_so_too_by_tls(kind: type[TlsRedis | TlsRabbitMQ], tmp_path: Path) -> None:
    for server in running(kind()):
        space = server.space()
        with readied(space, tmp_path, {}, door=server.door(space.place)) as scene:
            test_it_says_so_and_is_at_work_again(scene)
            test_an_idle_worker_notices(scene)
            test_a_worker_ends_when_it_is_asked_to(scene)


@pytest.mark.parametrize("how", ["up", "down", "half of an answer"])
def test_what_goes_one_way_is_swallowed(plain_scene: Scene, how: str) -> None:
    scene = plain_scene
    with closing_gate() as gate:
        ids = scene.publish(20, "before", gate=str(gate.path))
        wait_for(scene.records.started.read, WITHIN, scene.worker.log)
        if how in {"up", "down"}:
            scene.proxy.hold(how)
        else:
            method = {"redis": "", "rabbitmq": "deliver"}[scene.space.kind]
            trap = scene.proxy.on(method, action="halve")
    if how == "half of an answer":
        trap.wait(WITHIN)
    wait_for(lambda: LOST in scene.worker.log(), WITHIN, scene.worker.log)
    scene.proxy.release()
    scene.settle()
    scene.account(ids).check(unanswered(scene))


@pytest.mark.parametrize(
    "plain_scene", [{"visibility_timeout": 60, "unacked_restore_interval": 10}], indirect=True
)
def test_what_comes_late_is_no_silence(plain_scene: Scene) -> None:
    """Each answer, by half a second."""
    scene = plain_scene
    scene.proxy.delay(0.25)
    ids = scene.publish(4, "before")
    scene.records.finished.wait_once(ids)
    assert LOST not in scene.worker.log()
    scene.proxy.release()
    scene.settle()
    scene.account(ids).check(Allowed())


def test_an_idle_worker_notices(scene: Scene) -> None:
    """That its broker says nothing, though it asks it for nothing else."""
    scene.records.finished.wait_ids(scene.publish(4, "plain"))
    scene.proxy.hold()
    ids = scene.publish(6, "plain")
    wait_for(lambda: LOST in scene.worker.log(), WITHIN, scene.worker.log)
    scene.proxy.release()
    scene.settle()
    scene.records.finished.wait_ids(ids)


def test_an_answer_that_was_waited_for_in_vain(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    """Where it was, the worker only says that a task does not start; then it connects."""
    conf = {OPTIONS: PATIENCE["rabbitmq"], "broker_heartbeat": 0}
    url = rabbitmq_space.url
    with Proxy(rabbitmq_space) as proxy:
        worker = start_worker(proxy.url, app="tests.apps.once", queues=["a"], conf=conf)
        trap = proxy.on("ack", action="hold")
        publish(url, {"a": 1}, "confirmed").all()
        trap.wait()
        wait_for(lambda: "Not started" in worker.log(), WITHIN, worker.log)
        proxy.release()
        worker.records.finished.wait_ids(publish(url, {"a": 1}, "plain").all())


def test_a_loss_that_others_have_noticed(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    """Nobody says it again on the next connection."""
    conf = {OPTIONS: {"read_timeout": 1}}
    with Proxy(rabbitmq_space) as proxy:
        worker = start_worker(proxy.url, queues=["a"], conf=conf)
        proxy.on("flow", action="note").wait()  # an idle worker's question: it has looked
        proxy.cut()
        worker.records.started.wait_ids(publish(rabbitmq_space.url, {"a": 1}).all())
        with suppress(TimeoutError):  # that nothing happens has no end to be waited for
            wait_for(lambda: worker.log().count(LOST) > 1, 1, worker.log)
        assert worker.log().count(LOST) == 1


@pytest.mark.parametrize(
    ("broker", "bounds"),
    [
        ("redis://h", {"socket_timeout": ANSWERS, "socket_connect_timeout": CONNECTS}),
        ("amqp://h", {"read_timeout": ANSWERS, "write_timeout": ANSWERS}),
    ],
)
def test_every_wait_has_an_end_by_default(broker: str, bounds: dict[str, float]) -> None:
    """What a user has set wins."""
    app = Celery(broker=broker)
    bound_waits(app)
    assert bounds.items() <= app.conf.broker_transport_options.items()
    app.conf.broker_transport_options = dict.fromkeys(bounds, 33)
    bound_waits(app)
    assert set(bounds.values()).isdisjoint(app.conf.broker_transport_options.values())


@pytest.mark.parametrize(("broker", "tries"), [("redis://h", True), ("amqp://h", False)])
def test_who_redis_refuses_something_tries_again_by_default(broker: str, tries: bool) -> None:
    """What a user has set wins."""
    app = Celery(broker=broker)
    bound_waits(app)
    assert app.conf.broker_channel_error_retry is tries
    app.conf.broker_channel_error_retry = False
    bound_waits(app)
    assert app.conf.broker_channel_error_retry is False
