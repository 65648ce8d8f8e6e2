"""Who gets in, who may change something, and what every answer says to a browser."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.dead_letters.plan import Report
from celery_fair.web.guard import Visitors
from celery_fair.web.orders import Order
from celery_fair.web.server import is_loopback
from tests.web.answered import row
from tests.web.visit import Visit, site_of

ONE = {"celery@a": {"bulk": row(target_share=1.0, share=1.0, served=3)}}

PAGES = (
    *("/queues", "/queue?name=bulk", "/workers", "/worker?name=celery%40a", "/keys"),
    *("/dead-letters", "/partitions", "/doctor", "/actions"),
)
FORMS = ("/queue", "/key", "/dead-letters", "/order", "/order/stop")


@pytest.fixture(scope="module")
def visit() -> Visit:
    return Visit(site_of(ONE))


# Headers --------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PAGES, "/nothing", "/static/live.js"])
def test_a_page_may_load_from_here_alone(visit: Visit, path: str) -> None:
    response = visit.get(path)
    assert response.status_code == (404 if path == "/nothing" else 200)
    policy = dict(
        part.split(" ", 1) for part in response.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == "'none'"
    assert {*policy.values()} == {"'none'", "'self'"}
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_nothing_of_its_own_to_run(visit: Visit, path: str) -> None:
    text = visit.get(path).text
    assert text.count("<script") == text.count("<script defer src=") == 3
    for inline in (" style=", "<style", " onclick=", " onload=", "javascript:", "//cdn", "https:"):
        assert inline not in text


def test_figures_are_not_kept_by_a_browser(visit: Visit) -> None:
    assert visit.get("/queues").headers["cache-control"] == "no-store"
    assert "max-age" in visit.get("/static/page.css").headers["cache-control"]


def test_no_other_file_is_served(visit: Visit) -> None:
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd"):
        assert visit.get(path).status_code == 404


# Hosts ----------------------------------------------------------------------


def test_a_name_that_leads_here_is_not_enough(visit: Visit) -> None:
    assert visit.get("/queues", host="evil.test").status_code == 421
    assert visit.get("/queues", host="fair.test:5556").status_code == 200


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.8.0.1", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "fair.example.org", "")],
)
def test_what_is_of_this_machine_alone(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


# Rights ---------------------------------------------------------------------


@pytest.mark.parametrize("path", FORMS)
def test_without_rights_there_is_no_way(path: str) -> None:
    visit = Visit(site_of(ONE), changes=False)
    response = visit.post(path, {"name": "bulk", "act": "pause", "step": "do"})
    assert response.status_code == 403
    assert "You may look" in response.text


@pytest.mark.parametrize("path", PAGES)
def test_without_rights_there_is_no_button(path: str) -> None:
    text = Visit(site_of(ONE), changes=False).get(path).text
    assert 'method="post"' not in text
    assert "may look" in text


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize(
    "header",
    [
        {},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "origin": "http://fair.test"},
        {"sec_fetch_site": "same-origin", "origin": "http://evil.test"},
        {"origin": "http://evil.test"},
        {"origin": "http://fair.test:81"},
        {"origin": "null"},
    ],
)
def test_a_form_of_another_site_is_refused(visit: Visit, path: str, header: dict[str, str]) -> None:
    response = visit.request("POST", path, {"name": "bulk", "act": "pause"}, **header)
    assert response.status_code == 403
    assert "another site" in response.text


@pytest.mark.parametrize(
    "header",
    [
        {"sec_fetch_site": "same-origin"},
        {"origin": "http://fair.test"},
        {"sec_fetch_site": "same-origin", "origin": "http://fair.test"},
    ],
)
def test_a_form_of_this_site_goes_through(visit: Visit, header: dict[str, str]) -> None:
    response = visit.request("POST", "/queue", {"name": "bulk", "act": "pause"}, **header)
    assert (response.status_code, "What this will do" in response.text) == (200, True)


def test_a_queue_is_paused_or_resumed_and_nothing_else() -> None:
    visit = Visit(site_of(ONE))
    response = visit.post("/queue", {"name": "bulk", "act": "set", "step": "do"})
    assert (response.status_code, "none of pause, resume" in response.text) == (409, True)
    assert visit.site.log.recent() == []


def test_looking_does_not_change() -> None:
    visit = Visit(site_of(ONE))
    for path in FORMS[2:]:
        assert visit.get(f"{path}?name=bulk&act=pause&step=do").status_code in {200, 404, 405}
    assert visit.site.log.recent() == []


# A proxy --------------------------------------------------------------------


def test_whom_a_proxy_names() -> None:
    visitors = Visitors(True, ["alice"], "X-Forwarded-User", ["127.0.0.1"])
    site = site_of(ONE)
    visit = Visit(site, visitors)
    assert "alice: may change" in visit.get("/queues", x_forwarded_user="alice").text
    assert "eve: may look" in visit.get("/queues", x_forwarded_user="eve").text
    assert visit.get("/queues").status_code == 403
    assert visit.get("/queues", x_forwarded_user=" ").status_code == 403
    for path in ("/static/live.js", "/live?of=queues"):
        refused = visit.get(path)
        assert refused.status_code == 403
        assert "content-security-policy" in refused.headers
    elsewhere = Visit(site, visitors, address="10.0.0.7")
    assert elsewhere.get("/queues", x_forwarded_user="alice").status_code == 403


def test_behind_a_path() -> None:
    visit = Visit(site_of(ONE), root_path="/fair")
    text = visit.get("/fair/queues").text
    assert 'href="/fair/queue?name=bulk"' in text
    assert 'data-live="/fair/live?of=queues"' in text
    assert visit.get("/fair/").headers["location"] == "/fair/queues"


# Options --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "say who may"),
        (["--host", "::"], "say who may"),
        (["--may-change", "alice", "--allow-changes"], "goes by names"),
        (["--root-path", "fair"], "is a path such as /fair"),
    ],
)
def test_options_that_contradict_each_other(options: list[str], said: str) -> None:
    site = site_of(ONE)
    done = CliRunner().invoke(fair, ["web", *options], obj=SimpleNamespace(app=site.app))
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    site = site_of(ONE)
    path = tmp_path / "folder" / "file"
    done = CliRunner().invoke(
        fair, ["web", "--port", "0", "--action-log", str(path)], obj=SimpleNamespace(app=site.app)
    )
    assert done.exit_code == 1
    assert f"--action-log {path}" in done.stderr


# Live -----------------------------------------------------------------------


def events(
    visit: Visit, path: str, count: int, *headers: tuple[bytes, bytes]
) -> list[tuple[str, Any]]:
    """The first server-sent events of an address."""
    raw = asyncio.run(_received(visit, path, count, headers))
    lines = raw.replace("\r\n", "\n").split("\n\n")
    found = [dict(line.split(": ", 1) for line in each.split("\n")) for each in lines if each]
    return [(each["event"], json.loads(each["data"])) for each in found if "event" in each][:count]


async def _received(
    visit: Visit, path: str, count: int, headers: Sequence[tuple[bytes, bytes]]
) -> str:
    address, _, query = path.partition("?")
    received, enough = bytearray(), asyncio.Event()
    scope = {
        "type": "http",
        "method": "GET",
        "path": address,
        "query_string": query.encode(),
        "headers": [(b"host", b"fair.test"), *headers],
        "client": ("127.0.0.1", 1),
    }

    async def receive() -> dict[str, Any]:
        await enough.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        received.extend(message.get("body", b""))
        if received.count(b"event: ") >= count and received.endswith(b"\r\n\r\n"):
            enough.set()

    async with asyncio.timeout(30):
        await visit.app(scope, receive, send)
    return received.decode()


def test_live_sends_the_part_that_the_page_has() -> None:
    site = site_of(ONE)
    visit = Visit(site)
    (kind, part), (lines_kind, lines) = events(visit, "/live?of=queues", 2)
    assert (kind, lines_kind) == ("part", "lines")
    assert part["html"].strip() in visit.get("/queues").text
    assert (lines["names"], lines["figures"]) == (["bulk"], ["share", "target_share"])
    assert (lines["lines"], lines["whole"]) == ([[1.0], [1.0]], True)


def test_live_of_a_queue_that_has_gone_says_so() -> None:
    ((kind, part), *_) = events(Visit(site_of(ONE)), "/live?of=queue&name=other", 1)
    assert kind == "part"
    assert "No fair worker" in part["trouble"]


def test_live_gives_nobody_the_buttons_of_another() -> None:
    site = site_of(ONE)
    visitors = Visitors(True, ["alice"], "X-User", ["127.0.0.1"])
    action = site.log.begin("alice", "pause", "queue bulk", {})
    site.log.end(action, {"celery@a": "ok"}, {"path": "queue", "name": "bulk", "act": "resume"})
    visit = Visit(site, visitors)
    for name in ("alice", "bob"):
        ((_, part), *_) = events(visit, "/live?of=actions", 1, (b"x-user", name.encode()))
        assert ("Take back…" in part["html"]) is (name == "alice")


def test_live_lets_who_has_planned_it_alone_begin_an_order() -> None:
    site = site_of(ONE)
    order = Order("alice", "purge", "", ["1"], Report())
    site.orders._orders[order.id] = order
    visit = Visit(site, Visitors(True, ["alice", "bob"], "X-User", ["127.0.0.1"]))
    for name in ("bob", "alice"):
        header = (b"x-user", name.encode())
        ((_, part), *_) = events(visit, f"/live?of=order&id={order.id}", 1, header)
        assert ("Do it" in part["html"]) is (name == "alice")


def test_live_is_of_pages_alone(visit: Visit) -> None:
    assert visit.get("/live?of=../queues").status_code == 404


def test_command_group_knows_it() -> None:
    assert isinstance(fair, click.Group)
    assert "web" in fair.list_commands(click.Context(fair))
