"""What comes from Redis comes in the order of its queue, and is looked for seldom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import count
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from kombu import Connection, Exchange, Queue
from kombu.asynchronous import Hub
from kombu.transport.redis import QoS
from redis.connection import Connection as RedisConnection

from celery_fair.brokers.mover import RedisMover
from celery_fair.brokers.redis_acks import NotHeldError
from celery_fair.core.dwrr import Flow
from celery_fair.worker.queues import redis as redis_queues
from celery_fair.worker.queues.redis import RedisFeed, RedisSource
from tests.brokers import RedisServer, Space
from tests.feeds import gate, ports
from tests.publishing import publish
from tests.waiting import wait_for

WINDOW = 4


class Listening:
    """A source that sleeps: the next message of its only queue wakes it."""

    def __init__(self, connection: Connection, url: str) -> None:
        self.url = url
        self.hub = Hub()
        self.woken: list[None] = []
        self.source = RedisSource(connection, self.hub, self._wake, lambda _: None)
        flow = Flow("a", 1.0)
        self.feed: RedisFeed = self.source.feed(
            queue=Queue("a"), flow=flow, window=WINDOW, gate=gate(), ports=ports()
        )
        self.feed.open()
        self.source.seek()

    def _wake(self) -> None:
        self.woken.append(None)

    def wait_woken(self) -> None:
        for _ in self.hub.create_loop():
            if self.woken:
                return

    def publish(self, count: int) -> list[str]:
        return publish(self.url, {"a": count}).all()

    @property
    def ids(self) -> list[str]:
        """Of what is buffered."""
        return [message.headers["id"] for message in self.feed.buffer]

    def wait_full(self, window: int = WINDOW) -> None:
        def full() -> bool:
            self.source.fetch()
            return len(self.feed.buffer) >= window

        wait_for(full, 30, lambda: f"a full window, not {self.ids}")


@pytest.fixture
def listening(redis_space: Space) -> Iterator[Listening]:
    with Connection(redis_space.url) as connection:
        listening = Listening(connection, redis_space.url)
        yield listening
        listening.source.close()


def test_what_another_holds_by_now_is_not_acknowledged(redis_space: Space) -> None:
    """It was restored when its time was over, and a second worker has taken it."""
    with Connection(redis_space.url) as one, Connection(redis_space.url) as other:
        sleeper, second = Listening(one, redis_space.url), Listening(other, redis_space.url)
        ids = publish(redis_space.url, {"a": 1}).all()
        wait_for(lambda: sleeper.source.fetch() or sleeper.ids, 30, "the message")
        held = sleeper.feed.buffer[0]
        qos = second.source.channel.qos
        assert isinstance(qos, QoS)
        qos.restore_by_tag(held.delivery_tag)
        wait_for(lambda: second.source.fetch() or second.ids, 30, "it again")
        assert second.ids == ids

        with pytest.raises(NotHeldError):
            sleeper.source.acknowledge(held)
        second.source.acknowledge(second.feed.buffer[0])
        sleeper.source.close()
        second.source.close()


@pytest.mark.parametrize("header", ["", "\ud800"], ids=["plain", "odd"])
def test_who_restores_need_not_know_the_exchange(redis_space: Space, header: str) -> None:
    """Any worker of a database does, also of what only Python can read."""
    url = redis_space.url
    orders = Queue("a", Exchange("orders", "topic"), "orders.#")
    with Connection(url) as one, Connection(url) as other, redis.Redis.from_url(url) as client:
        headers = {"id": "1", "task": "noop", "odd": header}
        one.Producer().publish(
            [],
            exchange=orders.exchange,
            routing_key="orders.new",
            declare=[orders],
            headers=headers,
        )
        listening = Listening(one, url)
        wait_for(lambda: listening.source.fetch() or listening.ids, 30, "the message")
        channel: Any = other.channel()
        channel.qos.restore_by_tag(listening.feed.buffer[0].delivery_tag)
        assert (client.llen("a"), client.hlen("unacked")) == (1, 0)
        listening.source.close()


def test_who_has_room_again_is_looked_after(listening: Listening) -> None:
    """What Celery kept has expired, say, and nothing else happens that would wake anybody."""
    listening.publish(1)
    wait_for(lambda: listening.source.fetch() or listening.ids, 30, "the message")
    asked: list[None] = []
    reports: Any = listening.feed.reports
    reports.wake_up = SimpleNamespace(later=lambda: asked.append(None))
    message = listening.feed.buffer.popleft()
    room = listening.feed.free
    listening.feed.aside.put(message, eta=False)
    assert listening.feed.free == room - 1
    assert not asked
    listening.source.acknowledge(message)
    assert listening.feed.free == room
    assert asked


def test_who_is_told_of_what_comes_need_not_look(redis_space: Space, listening: Listening) -> None:
    """A process with nothing to do would wait for the answer, before each choice."""
    source = listening.source
    source.rest(monotonic())
    before, looked = calls(redis_space), source._looked
    wait_for(partial(worth_a_look, listening.feed), 30, "the time for a look")
    source.look(looked + 0.5)
    source.rest(looked + 0.4)
    assert calls(redis_space) == before

    listening.publish(1)
    listening.wait_woken()
    source.look(looked + 0.5)
    assert len(listening.ids) == 1
    source.rest(monotonic())
    before = calls(redis_space)
    wait_for(partial(worth_a_look, listening.feed), 30, "the time for a look")
    source.look(monotonic() + 1.5)  # the word may be lost on its way
    assert calls(redis_space) == before + 1


def test_what_a_source_was_told_of_it_looks_at_soon(listening: Listening) -> None:
    """Told just after a look, it does not look at once; nor does it go on as if it had."""
    source = listening.source
    source.rest(monotonic())
    listening.publish(1)
    listening.wait_woken()
    source.rest(source._looked)
    source.look(source._looked + 0.1)
    assert len(listening.ids) == 1


def test_what_was_chosen_starts_before_redis_is_asked(listening: Listening) -> None:
    asked: list[int] = []
    listening.source.before_asking(lambda: asked.append(len(listening.ids)))
    listening.publish(WINDOW + 1)
    listening.wait_full()
    assert set(asked) == {0}
    asked.clear()
    listening.source.fetch()  # there is no room for any
    assert asked == []


def test_acknowledgements_are_sent_together(redis_space: Space, listening: Listening) -> None:
    """A round trip for each would keep a process waiting that has nothing to do."""
    source, feed = listening.source, listening.feed
    listening.publish(WINDOW + 1)
    listening.wait_full()
    with redis.Redis.from_url(redis_space.url) as client:
        for _ in range(WINDOW - 1):
            feed.buffer.popleft().ack()
        assert client.hlen("unacked") == WINDOW
        before = calls(redis_space, "zrem")
        source.flush()
        source._acks.answered()
        assert calls(redis_space, "zrem") == before + 1
        assert client.hlen("unacked") == client.zcard("unacked_index") == 1

        feed.buffer[0].ack()
        source.last()
        assert client.hlen("unacked") == 0
        feed.buffer.clear()
        source.fetch()
        feed.buffer[0].ack()  # nobody comes by any more
        assert client.hlen("unacked") == client.zcard("unacked_index") == 0


def test_nobody_waits_for_the_answer_to_an_acknowledgement(
    redis_space: Space, listening: Listening
) -> None:
    """A task that may start twice starts meanwhile."""
    source, feed = listening.source, listening.feed
    listening.publish(2)
    listening.wait_full(2)
    with redis.Redis.from_url(redis_space.url) as client:
        client.client_pause(20_000, all=False)  # milliseconds, for what writes
        feed.buffer[0].ack()
        source.flush()
        assert client.hlen("unacked") == 2
        client.client_unpause()
        feed.buffer[1].ack()
        source.flush()  # after the first one's answer
        feed.buffer.clear()
        feed.left = 1  # as it is told
        source.fetch()
        assert client.hlen("unacked") == 0


def test_an_acknowledgement_that_may_be_lost_keeps_nothing_from_its_start(
    redis_space: Space, listening: Listening
) -> None:
    """Who sends the next ones is about to start what is acknowledged; who asks hears of it."""
    source, feed = listening.source, listening.feed
    listening.publish(2)
    listening.wait_full(2)
    with redis.Redis.from_url(redis_space.url) as client:
        client.client_pause(20_000, all=False)
        feed.buffer.popleft().ack()
        source.flush()
        client.client_kill_filter(_type="normal", skipme=True)
        client.client_unpause()
        feed.buffer.popleft().ack()
        source.flush()
        feed.left = 1
        with pytest.raises(redis.ConnectionError):
            source.fetch()
        assert client.hlen("unacked") == 1


def test_an_answer_that_nobody_waits_for_is_nobody_elses(
    redis_space: Space, listening: Listening
) -> None:
    source, feed = listening.source, listening.feed
    listening.publish(1)
    listening.wait_full(1)
    with redis.Redis.from_url(redis_space.url) as client:
        client.client_pause(20_000, all=False)
        feed.buffer[0].ack()
        source.flush()
        source._acks.close()
        with source.send._connection() as connection:
            connection.send_command("ECHO", "mine")
            client.client_unpause()
            assert connection.read_response() == b"mine"


def test_what_may_not_be_acknowledged_is_said_and_comes_again(
    redis_space: Space, caplog: pytest.LogCaptureFixture
) -> None:
    with redis.Redis.from_url(redis_space.url) as client:
        rights = ["+@all", "-zrem"]
        client.acl_setuser(
            "no-zrem", enabled=True, nopass=True, keys="*", channels="*", commands=rights
        )
        url = redis_space.url.replace("redis://", "redis://no-zrem:any@")
        with Connection(url) as connection:
            listening = Listening(connection, redis_space.url)
            listening.publish(WINDOW)
            listening.wait_full()
            for message in listening.feed.buffer:
                message.ack()
            listening.source.flush()
            listening.source._restore_overdue()  # every ten seconds
            assert client.hlen("unacked") == WINDOW
            client.acl_setuser("no-zrem", commands=["+zrem"])  # kombu gives all of it back
            listening.source.close()
        client.acl_deluser("no-zrem")
    [record] = caplog.records
    assert record.getMessage() == (
        f"Redis refuses the acknowledgements of {WINDOW} messages; they come again"
    )


@pytest.mark.parametrize("command", ["zadd", "hset", "rpop"])
def test_a_user_without_a_command_loses_nothing(redis_space: Space, command: str) -> None:
    """Nor is anything there twice: nothing of a script is undone."""
    user = f"no-{command}"
    with redis.Redis.from_url(redis_space.url) as client:
        client.acl_setuser(
            user, True, nopass=True, keys="*", channels="*", commands=["+@all", f"-{command}"]
        )
        with Connection(redis_space.url.replace("redis://", f"redis://{user}:any@")) as connection:
            listening = Listening(connection, redis_space.url)
            listening.publish(WINDOW)
            listening.feed.left = 1  # as it is told
            with pytest.raises(redis.ResponseError):
                listening.source.fetch()
            assert (client.llen("a"), client.hlen("unacked")) == (WINDOW, 0)
            listening.source.close()
        client.acl_deluser(user)


NAMES = [f"q{number}" for number in range(40)]


class Resting:
    """A source that looks at many queues from time to time."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.times: list[float] = []
        self.source = RedisSource(connection, None, lambda: None, self.times.append)
        self.feeds = [self._feed(name) for name in NAMES]

    def _feed(self, name: str) -> RedisFeed:
        feed: RedisFeed = self.source.feed(
            queue=Queue(name), flow=Flow(name, 1.0), window=WINDOW, gate=gate(), ports=ports()
        )
        feed.open()
        return feed

    @property
    def buffered(self) -> list[str]:
        """The names of the queues of which something is here."""
        return [feed.name for feed in self.feeds if feed.buffer]


@pytest.fixture
def resting(redis_space: Space) -> Iterator[Resting]:
    with Connection(redis_space.url) as connection:
        resting = Resting(connection)
        yield resting
        resting.source.close()


def calls(space: Space, command: str = "evalsha") -> int:
    """How often the server was sent a command; a script, if none is named."""
    with redis.Redis.from_url(space.url) as client:
        return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


def look(resting: Resting) -> None:
    """Look at all of them, when some time is over, as the dispatcher does."""
    for feed in resting.feeds:
        wait_for(partial(worth_a_look, feed), 30, "the time for a look")
    resting.source.look(monotonic())
    resting.source.seek()


def worth_a_look(feed: RedisFeed) -> bool:
    return feed.worth_a_look(monotonic())


def test_many_empty_queues_are_asked_in_one_word(redis_space: Space, resting: Resting) -> None:
    look(resting)
    before = calls(redis_space)
    look(resting)
    assert calls(redis_space) == before
    assert resting.buffered == []

    publish(redis_space.url, {NAMES[7]: 1, NAMES[30]: 2})
    look(resting)
    assert resting.buffered == [NAMES[7], NAMES[30]]
    publish(redis_space.url, {NAMES[8]: 1})
    look(resting)
    assert resting.buffered == [NAMES[7], NAMES[8], NAMES[30]]


def test_looking_at_many_queues_takes_a_hundredth_of_the_time(
    resting: Resting, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = count(1.0, 0.01)
    monkeypatch.setattr(redis_queues, "thread_time", lambda: next(spent))
    now = monotonic()
    look(resting)
    assert resting.times[-1] - now >= 0.99


def test_many_are_given_back_in_one_round_trip(
    redis_space: Space, resting: Resting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand ETAs would keep a warm stop waiting else."""
    ids = publish(redis_space.url, {NAMES[0]: WINDOW}).all()
    look(resting)
    held = list(resting.feeds[0].buffer)
    sent: list[object] = []
    mover = RedisMover("dead-letters", resting.connection)
    with redis.Redis.from_url(redis_space.url) as client:
        with monkeypatch.context() as watched:
            send = RedisConnection.send_packed_command
            watched.setattr(
                RedisConnection,
                "send_packed_command",
                lambda self, command, *rest, **more: (
                    sent.append(command),
                    send(self, command, *rest, **more),
                )[1],
            )
            mover.give_back_all(held)
        assert client.hlen("unacked") == 0
        assert client.zcard("unacked_index") == 0
        back = [json.loads(raw)["headers"]["id"] for raw in client.lrange(NAMES[0], 0, -1)]
    assert sorted(back) == sorted(ids)
    assert all(message.acknowledged for message in held)
    assert 1 <= len(sent) < WINDOW


def test_what_cannot_be_given_back_is_said(redis_space: Space, resting: Resting) -> None:
    publish(redis_space.url, {NAMES[0]: WINDOW})
    look(resting)
    held = list(resting.feeds[0].buffer)
    with redis.Redis.from_url(redis_space.url) as client:
        client.set(NAMES[0], "no list")
        with pytest.raises(redis.ResponseError):
            RedisMover("dead-letters", resting.connection).give_back_all(held)
        assert client.hlen("unacked") == WINDOW
        client.delete(NAMES[0])
    assert not any(message.acknowledged for message in held)


@pytest.mark.parametrize("closed", [False, True], ids=["left open by kombu", "closed by kombu"])
def test_who_is_closed_keeps_no_connection_and_still_restores(
    redis_space: Space, closed: bool
) -> None:
    """Kombu restores, at the process's exit, what is unacknowledged: with the channel's pools."""
    with Connection(redis_space.url) as connection:
        listening = Listening(connection, redis_space.url)
        ids = publish(redis_space.url, {"a": 1}).all()
        wait_for(lambda: listening.source.fetch() or listening.ids == ids, 30, "the message")
        channel = listening.source.channel
        pool = channel.pool
        assert any(each.is_connected for each in pool._available_connections)
        if closed:
            channel.close()

        listening.source.close()
        assert not any(each.is_connected for each in pool._available_connections)
        channel.qos.restore_unacked_once()
        assert redis_space.depths()["a"].ready == 1


def test_a_redis_that_refuses_to_restore_is_named_in_a_line(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """It is out of memory, say, and has it again later: the worker lives, and tries it again."""
    options = {"unacked_restore_interval": 0}
    with Connection(own_redis.space().url, transport_options=options) as connection:
        source = RedisSource(connection, None, lambda: None, lambda _: None)
        own_redis.client.config_set("maxmemory", 1)
        source.fetch()
        own_redis.client.config_set("maxmemory", 0)
        (record,) = caplog.records
        assert record.exc_info is None
        assert "Redis refuses to give back" in record.getMessage()
        assert "maxmemory" in record.getMessage()

        source.fetch()
        assert len(caplog.records) == 1
        source.close()
