"""A change that is kept on the page holds for workers that start later, and is taken back whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from kombu import Connection

from celery_fair.brokers.kept import Keeping, KeptQueue
from celery_fair.brokers.redis import Commands
from celery_fair.operate.workers import Workers
from tests.brokers import Space
from tests.web.answered import row
from tests.web.visit import Visit, site_of
from tests.workers import StartWorker

CONF: dict[str, Any] = {"fair_queues": {"bulk": {"quantum": 2}}}


@contextmanager
def keeping(space: Space) -> Iterator[Keeping]:
    with Connection(space.url) as connection:
        yield Keeping(Commands(connection.default_channel))


def test_a_change_is_kept_and_taken_back(redis_space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(redis_space, pool="threads", queues=["bulk"], conf=CONF)
    assert worker.inspect("ping")
    site = site_of({worker.hostname: {"bulk": row(quantum=2.0)}}, broker=redis_space.url, conf=CONF)
    named = [worker.hostname]  # who is waited for no longer than until it answers
    site.workers = lambda: closing(Workers(site.app, named, 30))  # type: ignore[method-assign]
    visit = Visit(site)

    def quantum() -> float:
        return float(worker.control("fair_status")["bulk"]["quantum"])

    def done(**data: str) -> None:
        response = visit.post("/queue", {"name": "bulk", "step": "do", **data})
        assert response.status_code == 303, response.text

    def take_back() -> None:
        fields = {**visit.site.log.recent()[0].back, "step": "do"}
        assert visit.post("/queue", fields).status_code == 303

    assert 'name="keep"' in visit.get("/queue?name=bulk").text
    seen = visit.post("/queue", {"name": "bulk", "quantum": "7"}).text
    assert "To keep it, go back and tick <i>Keep it</i>" in seen
    with keeping(redis_space) as kept:
        kept.keep("bulk", {"quantum": 3, "prefetch": 9})
        seen = visit.post("/queue", {"name": "bulk", "quantum": "7", "keep": "yes"}).text
        assert "It is kept, and holds for workers that start later" in seen
        assert '<input type="hidden" name="keep" value="yes">' in seen
        assert kept.of("bulk").options["quantum"] == 3
        done(quantum="7", keep="yes")
        assert (quantum(), kept.of("bulk").options) == (7, {"quantum": 7, "prefetch": 9})
        kept.keep("bulk", {"prefetch": 4})
        take_back()
        assert (quantum(), kept.of("bulk").options) == (2, {"quantum": 2, "prefetch": 4})
        done(quantum="8")
        assert (quantum(), kept.of("bulk").options["quantum"]) == (8, 2)
        kept.forget("bulk")
        done(act="pause", keep="yes")
        assert kept.of("bulk") == KeptQueue(paused=True)
        done(act="resume")
        assert kept.of("bulk") == KeptQueue()
        take_back()
        assert kept.of("bulk").paused
        assert worker.control("fair_status")["bulk"]["held"] == "paused"


def test_where_nothing_can_be_kept() -> None:
    visit = Visit(site_of({"a": {"bulk": row()}}))
    text = visit.get("/queue?name=bulk").text
    assert ('name="keep"' in text, "takes a Redis" in text) == (False, True)
    data = {"name": "bulk", "keep": "yes", "act": "pause", "step": "do"}
    response = visit.post("/queue", data)
    assert (response.status_code, "needs a Redis" in response.text) == (503, True)
