"""A leash of all workers, on a real Redis: one bound for all, and a share of it without."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import monotonic
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import ImproperlyConfigured

from celery_fair.core.gate import SLACK
from celery_fair.settings import Settings
from celery_fair.worker.dispatch.gates import ClusterLeash, Gates
from tests.brokers import RedisServer, Space
from tests.patience import wait_long_for_answers
from tests.waiting import wait_for

Member = Callable[..., ClusterLeash]


@pytest.fixture
def member(redis_space: Space) -> Iterator[Member]:
    yield from members(redis_space.url)


@pytest.fixture
def own_member(own_redis: RedisServer) -> Iterator[Member]:
    """As `member`, on a Redis that the test may kill."""
    yield from members(own_redis.url())


def members(url: str) -> Iterator[Member]:
    made: list[ClusterLeash] = []

    def make(name: str = "w1", rate: float = 10, burst: float = 3, queue: str = "q") -> Any:
        made.append(ClusterLeash(url, queue, rate, burst, name))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        wait_long_for_answers(patch)
        yield make
    for leash in made:
        leash._script.registered_client.close()


def takes(leash: ClusterLeash, now: float | None = None) -> int:
    """How many tokens it gives in a row."""
    count = 0
    while count < 100 and leash.take(monotonic() if now is None else now):
        count += 1
    return count


def test_members_share_one_burst(member: Member) -> None:
    one, other = member("w1", rate=0.01), member("w2", rate=0.01)
    assert [one.take(0), other.take(0), one.take(0)] == [True] * 3
    assert not other.take(0)
    assert not one.take(0)


def test_queues_have_a_bucket_each(member: Member) -> None:
    assert takes(member(rate=0.01, queue="a")) == 3
    assert takes(member(rate=0.01, queue="b")) == 3


def of_app(url: str, conf: dict[str, Any]) -> ClusterLeash:
    """The leash that workers of an app keep to."""
    app = Celery("shop", broker=url, set_as_current=False)
    app.conf.fair_queues = {"q": {"rate": 0.01, "burst": 3, "scope": "cluster"}}
    app.conf.update(conf)
    leash = Gates(Settings.of(app), "w1").of("q").leash
    assert isinstance(leash, ClusterLeash)
    return leash


def test_apps_that_begin_their_keys_otherwise_have_a_bucket_each(redis_space: Space) -> None:
    """In one database, which is the broker of both."""
    shop, bank = (
        {"broker_transport_options": {"global_keyprefix": prefix}} for prefix in ("shop:", "bank:")
    )
    with ExitStack() as stack:

        def leash(conf: dict[str, Any]) -> ClusterLeash:
            made = of_app(redis_space.url, conf)
            stack.callback(made._script.registered_client.close)
            return made

        assert takes(leash(shop)) == 3
        assert takes(leash(bank)) == 3
        assert takes(leash({})) == 3
        assert takes(leash(shop)) == 0
        told = {"fair_leash_url": redis_space.url}  # has no prefix: it may be anybody's
        assert takes(leash(shop | told)) == takes(leash(bank | told)) == 0


def test_a_refusal_says_when_to_ask_again(member: Member) -> None:
    one, other = member("w1", rate=0.02, burst=1), member("w2", rate=0.02, burst=1)
    assert one.take(0)
    assert not other.take(100)
    # Fifty seconds for a token, and the slack of a first start; less what the asking took.
    assert 100 < other.when(100) <= 150 + SLACK
    assert not other.take(100.0001)
    assert other.when(100) == other.when(100.0001)


def test_nobody_is_asked_before_that_time(member: Member, redis_space: Space) -> None:
    leash = member(rate=0.01, burst=1)
    assert leash.take(0)
    assert not leash.take(0)
    redis_space.server.flush(redis_space.place)  # type: ignore[attr-defined]
    assert not leash.take(99)
    assert leash.take(leash.when(0))


def test_two_members_obey_one_bound_by_the_clock_of_the_server(member: Member) -> None:
    """In every window; their own clocks differ."""
    rate, burst = 200, 5
    leashes = [(member("w1", rate, burst), 0.0), (member("w2", rate, burst), 1e6)]
    spans: list[tuple[float, float]] = []
    began = monotonic()

    def over() -> bool:
        for leash, offset in leashes:
            before = monotonic()
            if leash.take(before + offset):
                spans.append((before, monotonic()))
        return monotonic() - began > 1 and len(spans) >= 20

    wait_for(over, 30, interval=0.001)
    for i, (earliest, _) in enumerate(spans):
        for count, (_, latest) in enumerate(spans[i:], start=1):
            assert count <= burst + rate * (latest - earliest) + 1e-3
    assert len(spans) >= 20


def test_they_take_turns_however_quick_one_is(member: Member) -> None:
    """One of them is always the first to ask, and both come before a token's moment is over."""
    leashes = [member("w1", 50, 1), member("w2", 50, 1)]
    owners: list[int] = []
    in_turn: list[bool] = []
    last = [monotonic()]

    def over() -> bool:
        began = monotonic()
        for i, leash in enumerate(leashes):
            if leash.take(monotonic()):
                owners.append(i)
                if monotonic() - last[0] < 0.01:  # else this process has stood still
                    in_turn.append(owners[-2:] != [i, i])
        last[0] = began
        return len(in_turn) >= 40

    wait_for(over, 60, interval=0.001)
    print(owners)
    assert sum(in_turn) >= 20


def test_who_does_not_come_for_its_turn_keeps_nobody_waiting(member: Member) -> None:
    one, gone = member("w1", 1, 1), member("w2", 1, 1)
    assert one.take(monotonic())
    assert not gone.take(monotonic())
    wait_for(lambda: one.take(monotonic()), 30, "a token")


def test_what_was_not_used_can_be_given_back(member: Member) -> None:
    one, other = member("w1", rate=0.01), member("w2", rate=0.01)
    assert takes(one) == 3
    one.give_back(monotonic())
    assert [other.take(0), other.take(0)] == [True, False]
    for _ in range(10):
        one.give_back(monotonic())
    assert takes(one) == 3


def test_idle_time_restores_the_burst_and_no_more(member: Member, redis_space: Space) -> None:
    leash = member(rate=0.01, burst=3)
    assert takes(leash, 0) == 3
    with redis_space.server.client_of(redis_space.place) as client:  # type: ignore[attr-defined]
        client.hincrbyfloat("celery-fair:leash:{q}", "since", -3600)
    assert sum(leash.take(now) for now in (1000.0,) * 4) == 3


def test_a_server_clock_that_was_set_back_stops_nobody(member: Member, redis_space: Space) -> None:
    leash = member(rate=10, burst=1)
    assert leash.take(0)
    with redis_space.server.client_of(redis_space.place) as client:  # type: ignore[attr-defined]
        client.hincrbyfloat("celery-fair:leash:{q}", "since", 3600)
    assert not leash.take(0)
    assert leash.when(0) <= 0.15 + SLACK


@pytest.mark.parametrize("rate", [1e-300, 1e300])
def test_extreme_rates_do_no_harm(member: Member, rate: float, caplog: Any) -> None:
    leash = member(rate=rate, burst=1)
    assert leash.take(0)
    assert leash.when(0) >= 0
    assert not caplog.records


def test_a_bucket_nobody_uses_is_forgotten_by_redis(member: Member, redis_space: Space) -> None:
    takes(member(rate=10, burst=100))
    with redis_space.server.client_of(redis_space.place) as client:  # type: ignore[attr-defined]
        expiries = {client.ttl(key) for key in client.scan_iter("celery-fair:*")}
        assert len(list(client.scan_iter("celery-fair:*"))) == 2
    assert all(60 < seconds <= 71 for seconds in expiries)


def test_flushed_scripts_are_loaded_again(member: Member, redis_server: RedisServer) -> None:
    leash = member(rate=0.01)
    assert leash.take(0)
    redis_server.client.script_flush()
    assert takes(leash, 0) == 2


# Without Redis.


def test_without_redis_it_keeps_to_its_share(
    own_member: Member, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = own_member("w1", rate=10, burst=4), own_member("w2", rate=10, burst=4)
    assert one.take(0)
    assert other.take(0)
    assert one.take(0)  # has seen the other by now
    own_redis.kill()

    for leash in (one, other):
        assert not leash.take(10)  # the shared bucket may have been empty
        granted, now = 0, 10.0
        while now < 20:
            now = max(leash.when(now), now)
            granted += leash.take(now)
        # Half of 10/s, over ten seconds.
        assert 48 <= granted <= 51
    warnings = [record.message for record in caplog.records]
    assert len(warnings) == 2
    assert all("shared leash of queue q cannot be reached" in text for text in warnings)
    assert all("its share of one in 2: 5/s" in text for text in warnings)


def test_it_is_back_when_redis_is(
    own_member: Member, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    leash = own_member(rate=0.001, burst=2)
    assert leash.take(0)
    own_redis.kill()
    assert not leash.take(1)
    asked_again = leash.when(1)
    assert asked_again <= 3  # although its own next token is far away
    own_redis.restart()
    assert leash.take(asked_again)
    assert not leash.take(asked_again)
    assert "The shared leash of queue q is back" in caplog.records[-1].message


def test_a_token_is_given_back_while_redis_is_away(
    own_member: Member, own_redis: RedisServer
) -> None:
    leash = own_member(rate=0.001, burst=2)
    assert leash.take(0)
    own_redis.kill()
    leash.give_back(1)  # lost: nobody starts more for it
    assert not leash.take(1)
    leash.give_back(1)
    assert leash.take(1)


def test_a_redis_that_does_not_answer_is_asked_the_less_often(
    own_member: Member, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt stands still until its time is over; most of the time must be the queues'."""
    monkeypatch.setattr("celery_fair.redis_client._TIMEOUT", 2)
    leash = own_member(rate=0.001)
    assert leash.take(0)
    os.kill(own_redis.pid, signal.SIGSTOP)
    try:
        began = monotonic()
        assert not leash.take(1)
        took = monotonic() - began
        assert leash.when(1) - 1 >= 15 * min(took, 0.5)
    finally:
        os.kill(own_redis.pid, signal.SIGCONT)
    assert wait_for(lambda: leash.take(monotonic() + 1e6), 30)


def test_a_redis_that_refuses_to_write_counts_as_away(
    own_member: Member, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    leash = own_member()
    own_redis.client.set("celery-fair:leash:{q}", "no hash")
    assert not leash.take(0)
    assert "cannot be reached" in caplog.text
    assert leash.take(leash.when(0.1) + 0.2)


def test_another_rate_is_in_force_at_once(member: Member) -> None:
    leash = member(rate=0.001, burst=1)
    assert leash.take(0)
    assert not leash.take(0)
    leash.change(1000.0, 1, 0)
    assert wait_for(lambda: leash.take(monotonic()), 30)


def test_another_rate_while_redis_is_away(own_member: Member, own_redis: RedisServer) -> None:
    leash = own_member(rate=0.001, burst=1)
    own_redis.kill()
    assert not leash.take(0)
    leash.change(100.0, 1, 0)
    assert not leash.take(0)
    assert leash.when(0) <= 0.05 + SLACK
    assert leash.take(0.05 + SLACK)


@pytest.mark.parametrize(
    "url", ["redis://h:port/0", "http://h", "rediss://h?ssl_cert_reqs=CERT_REQUIRED"]
)
def test_what_is_no_url_of_a_redis_is_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="fair_leash_url, or else the broker's URL: no"):
        ClusterLeash(url, "q", 1, 1, "w1")


def test_without_the_package_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(
        ImproperlyConfigured, match=r"no client of Redis can be made for it: .*redis"
    ):
        ClusterLeash("redis://h", "q", 1, 1, "w1")
