"""On Redis: the lock under which what a lost worker had is returned, left by who was cut off."""

from __future__ import annotations

import pytest
import redis
from kombu import Connection

from tests.brokers import Space
from tests.publishing import publish

pytestmark = pytest.mark.newest


def test_nothing_is_returned_until_the_lock_expires(redis_space: Space) -> None:
    publish(redis_space.url, {"a": 1})
    options = {"visibility_timeout": 0, "unacked_mutex_expire": 1000}
    with (
        Connection(redis_space.url, transport_options=options) as connection,
        connection.channel() as channel,
        redis.Redis.from_url(redis_space.url) as client,
    ):
        assert channel.basic_get("a") is not None
        client.set("unacked_mutex", "of a worker that was cut off", ex=1000)
        channel.qos.restore_visible(interval=1)
        assert (client.llen("a"), client.hlen("unacked")) == (0, 1)

        client.delete("unacked_mutex")  # as its expiry does
        channel.qos.restore_visible(interval=1)
        assert (client.llen("a"), client.hlen("unacked")) == (1, 0)
