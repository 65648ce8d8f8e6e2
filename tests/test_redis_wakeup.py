"""What wakes an idle worker on Redis: it is told of each message, and takes none."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pytest
import redis
from kombu import Connection
from kombu.asynchronous import Hub

from celery_fair.worker.queues import redis_wakeup
from celery_fair.worker.queues.redis_wakeup import RedisWakeUp, wake_up_for
from tests.brokers import Space
from tests.faults.proxy import Proxy
from tests.waiting import wait_for


class Waiter:
    """One that listens, on a loop of its own."""

    def __init__(self, url: str) -> None:
        self.client = redis.Redis.from_url(url)
        self.told: list[set[str]] = []
        self.hub = Hub()
        self.wake_up = RedisWakeUp(self.client.connection_pool, self.hub, self._changed)
        self._lists: set[str] = set()

    def _changed(self, quiet: Collection[str]) -> None:
        self.told.append({each for each in self._lists if each not in quiet})

    def listen(self, *lists: str) -> None:
        """Listen to these, and wait until the server has answered."""
        self._lists.update(lists)
        self.wake_up.listen(lists)
        self.wait_answered()

    def wait(self) -> set[str]:
        """Return what may have something, by what it is told next."""

        def told() -> bool:
            self.wake_up._on_readable()
            return bool(self.told)

        wait_for(told, 30, "a wake-up")
        return self.told.pop(0)

    def wait_answered(self) -> None:
        """Wait until the server knows what is listened to."""

        def answered() -> bool:
            self.wake_up._on_readable()
            return not self.wake_up._questions

        wait_for(answered, 30, "the answer")


@contextmanager
def waiting(url: str) -> Iterator[Waiter]:
    waiter = Waiter(url)
    try:
        yield waiter
    finally:
        waiter.wake_up.close()
        waiter.client.close()


def test_each_message_wakes(redis_space: Space) -> None:
    """And is where it was: nobody has taken it."""
    with waiting(redis_space.url) as waiter:
        for number in range(20):
            waiter.listen("a", "b")
            assert not waiter.told
            waiter.client.lpush("a", number)
            assert waiter.wait() == {"a"}
            assert waiter.client.rpop("a") == str(number).encode()


def test_what_came_before_the_question(redis_space: Space) -> None:
    with waiting(redis_space.url) as waiter:
        waiter.client.lpush("a", "x")
        waiter.listen("a")
        assert waiter.wait() == {"a"}
        assert waiter.client.llen("a") == 1


def test_other_lists_wake_nobody(redis_space: Space) -> None:
    with waiting(redis_space.url) as waiter:
        waiter.listen("a")
        waiter.client.lpush("b", "x")
        waiter.listen("c")
        waiter.client.lpush("c", "x")
        assert waiter.wait() == {"c"}


def test_a_list_that_nobody_listens_to_any_more(redis_space: Space) -> None:
    """What came to it since is looked for whenever another list wakes the worker.

    Or that one would be served before it, however urgent it is.
    """
    with waiting(redis_space.url) as waiter:
        waiter.listen("urgent", "other")
        waiter.client.lpush("urgent", "x")
        assert waiter.wait() == {"urgent"}
        waiter.client.lpush("urgent", "y")
        waiter.client.lpush("other", "x")
        assert waiter.wait() == {"urgent", "other"}


def test_a_server_that_is_flushed(redis_space: Space) -> None:
    """Whatever was there may have come again since."""
    with waiting(redis_space.url) as waiter:
        waiter.listen("a", "b")
        waiter.client.flushdb()
        assert waiter.wait() == {"a", "b"}


def test_who_listens_to_nothing_speaks(redis_space: Space) -> None:
    """Or a server with a `timeout` closes the connection."""
    with waiting(redis_space.url) as waiter:
        waiter.wake_up._ask_again()
        waiter.wait_answered()
        clients = [each for each in waiter.client.client_list() if each["db"] == redis_space.place]
        assert [each["cmd"] for each in clients if "t" in each["flags"]] == ["ping"]
        assert waiter.told == []


def test_what_is_said_to_the_client_library_is_no_answer(redis_space: Space) -> None:
    """It returns nothing then, as where Redis Cloud tells of a failover."""
    with waiting(redis_space.url) as waiter:
        waiter.listen("a")
        parser = waiter.wake_up._connection._parser
        said: list[object] = []
        parser.set_invalidation_push_handler(said.append)
        waiter.client.lpush("a", "x")
        wait_for(lambda: waiter.wake_up._on_readable() or said, 30, "a word")
        assert waiter.told == []
        parser.set_invalidation_push_handler(lambda said: said)
        waiter.listen("b")
        waiter.client.lpush("b", "x")
        assert waiter.wait() == {"b"}


def test_an_answer_that_is_not_read_is_no_silence(
    redis_space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of a solo pool keeps the thread, and then timers come first."""
    monkeypatch.setattr(redis_wakeup, "_ANSWERS_WITHIN", 0)
    with waiting(redis_space.url) as waiter:
        waiter.wake_up._ask_again()
        wait_for(lambda: waiter.wake_up._connection.can_read(timeout=0), 30, "an answer")
        waiter.wake_up._ask_again()


def test_a_connection_that_is_half_open(
    redis_space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next question has no answer, and then the worker is to connect again."""
    with Proxy(redis_space) as proxy, waiting(proxy.url) as waiter:
        waiter.listen("a")
        proxy.hold()
        waiter.wake_up._ask_again()
        waiter.wake_up._ask_again()  # it may come yet
        monkeypatch.setattr(redis_wakeup, "_ANSWERS_WITHIN", 0)
        with pytest.raises(ConnectionError, match="has said nothing"):
            waiter.wake_up._ask_again()


def test_a_proxy_that_hangs_up_when_it_is_greeted(
    redis_space: Space, caplog: pytest.LogCaptureFixture
) -> None:
    """It knows no RESP3: the worker looks at its queues instead."""
    with Proxy(redis_space) as proxy, Connection(proxy.url) as connection:
        channel = connection.channel()
        assert channel.client.ping()
        proxy.on("HELLO", action="cut")
        assert wake_up_for(channel, Hub(), lambda quiet: None, 0.05) is None
    assert "Redis does not tell this worker of new messages" in caplog.text
    assert "it looks at its queues every 50 ms" in caplog.text
