"""In a browser, on real workers: what moves, what is changed, and what stays text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.brokers import Space
from tests.chromium import OPTIONS, browser
from tests.dead_letters.conftest import Box
from tests.integration.conftest import module_space, start_module_worker
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.web.served import serving
from tests.workers import StartWorker, WorkerProcess

__all__ = ["module_space", "start_module_worker"]

HOSTILE = "<img src=x onerror=\"document.title='taken'\">"
CONF: dict[str, Any] = {
    "fair_queues": {
        "left": {"quantum": 10},
        "right": {"quantum": 10},
        HOSTILE: {"quantum": 5, "max_in_flight": 1},
        "replayed": {},
    }
}
pytestmark = pytest.mark.timeout(300)  # a browser, a server and a worker have to start

PATHS = ("/queues", "/workers", "/dead-letters", "/doctor")

PATIENCE = 60_000
"""Milliseconds, against hanging."""
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def worker(start_module_worker: StartWorker, module_space: Space) -> WorkerProcess:
    worker = start_module_worker(module_space, pool="threads", concurrency=2, conf=CONF)
    assert worker.inspect("ping")
    return worker


@pytest.fixture(scope="module")
def server(
    worker: WorkerProcess, module_space: Space, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("web")
    log = str(folder / "actions.jsonl")
    with serving(module_space, CONF, folder, "--allow-changes", "--action-log", log) as address:
        yield address


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser(), args=OPTIONS)
        yield launched
        launched.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page in a browser; whatever it complains of fails the test."""
    complaints: list[str] = []
    context = chromium.new_context(viewport={"width": 1000, "height": 800})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text))
    yield page
    context.close()
    assert complaints == []


def share(page: Page, queue: str) -> float:
    """What the table of queues says that a queue got, in percent."""
    cell = page.locator(f'tr[data-key="{queue}"] td[data-label="Share"]')
    return float(cell.inner_text().removesuffix(" %"))


@pytest.mark.either_broker
def test_shares_move_after_a_quantum_is_set(
    server: str, worker: WorkerProcess, module_space: Space, page: Page
) -> None:
    backlog = {"left": 4_000, "right": 4_000}
    publish(module_space.url, backlog, "nap", [0.04], persistent=False)
    page.goto(f"{server}/queues")
    wait_for(lambda: 40 < share(page, "left") < 60, 60, lambda: page.inner_text("main"))
    expect(page.locator(".plot canvas")).to_be_visible()

    watching = page.context.new_page()
    watching.goto(f"{server}/queue?name=left#change")
    watching.get_by_label("Quantum").fill("90")
    watching.get_by_role("button", name="See what it will do").click()
    expect(watching.get_by_text("90.0 %")).to_be_visible()
    assert worker.inspect("_request", "fair_status")["left"]["quantum"] == 10
    watching.get_by_role("button", name="Do it").click()
    expect(watching.get_by_text("left: quantum=90")).to_be_visible()

    wait_for(lambda: share(page, "left") > 80, 60, lambda: page.inner_text("main"))

    watching.get_by_role("button", name="Take back").click()
    watching.get_by_role("button", name="Do it").click()
    expect(watching.get_by_text("left: quantum=10")).to_be_visible()
    assert worker.inspect("_request", "fair_status")["left"]["quantum"] == 10


@pytest.mark.either_broker
def test_a_dead_letter_is_replayed_and_runs(
    server: str, worker: WorkerProcess, module_space: Space, page: Page
) -> None:
    place = {"queue": "replayed", "routing_key": "replayed"}
    box = Box(module_space.url)
    with box.connection:
        box.put("never-started", b"[[1], {}, {}]", task="noop", **place)
        box.put("may-have-started", b"[[2], {}, {}]", task="noop", **place, may_have_started=True)
        box.put("hostile", b"[[3], {}, {}]", task=HOSTILE, reason=HOSTILE, **place)

        page.goto(f"{server}/dead-letters?task=noop")
        page.get_by_role("button", name="Replay what never started").click()
        expect(page.get_by_text("1 messages will be published")).to_be_visible()
        expect(page.get_by_text("1 are left, as they may have started")).to_be_visible()
        page.get_by_role("button", name="Do it").click()
        worker.records.started.wait_ids(["never-started"])
        expect(page.get_by_text("It has ended.")).to_be_visible()

        page.get_by_role("link", name="All dead letters").click()
        page.get_by_role("link", name="may-have-started", exact=True).click()
        page.get_by_label("Reason to replay it").fill("its receipt is missing")
        page.get_by_role("button", name="Replay with this reason").click()
        page.get_by_role("button", name="Do it").click()
        worker.records.started.wait_ids(["may-have-started"])
        wait_equal(box.ids, ["hostile"])
    page.goto(f"{server}/actions")
    expect(page.get_by_text("its receipt is missing")).to_be_visible()


@pytest.mark.either_broker
def test_names_of_others_stay_text(server: str, page: Page, module_space: Space) -> None:
    box = Box(module_space.url)
    with box.connection:
        box.put("named", b'["<script>document.title=1</script>"]', task=HOSTILE, worker=HOSTILE)
    for path in (*PATHS, f"/queue?name={HOSTILE}"):
        page.goto(f"{server}{path}")
        expect(page.locator("h1")).to_be_visible()
        if path in {"/queues", "/dead-letters"}:
            expect(page.get_by_text(HOSTILE).first).to_be_visible()
        if path not in {"/doctor", "/dead-letters"}:
            expect(page.get_by_text("Live", exact=True)).to_be_visible()
        assert page.locator("img, main script").count() == 0
        assert page.title() != "taken"
    page.goto(f"{server}/dead-letters?reason=malformed")
    page.get_by_role("link", name="named").click()
    expect(page.get_by_text("<script>document.title=1</script>")).to_be_visible()
    assert page.locator("img, main script").count() == 0


@pytest.mark.either_broker
def test_a_queue_is_paused_and_has_that_taken_back(
    server: str, worker: WorkerProcess, page: Page
) -> None:
    def held() -> Any:
        return worker.inspect("_request", "fair_status")["replayed"]["held"]

    page.goto(f"{server}/queue?name=replayed")
    page.get_by_role("button", name="Pause…").click()
    expect(page.get_by_text("None of its messages starts until it is resumed")).to_be_visible()
    assert held() is None
    page.get_by_role("button", name="Do it").click()
    expect(page.get_by_text("replayed: paused")).to_be_visible()
    assert held() == "paused"
    page.goto(f"{server}/queue?name=replayed")
    expect(page.get_by_text("paused by an operator; `fair resume replayed`")).to_be_visible()
    worker.control("fair_resume", queue="replayed")
    expect(page.get_by_text("paused by an operator")).to_have_count(0)  # the page stays as it is
    worker.control("fair_pause", queue="replayed")
    expect(page.get_by_text("paused by an operator")).to_be_visible()
    page.goto(f"{server}/actions")
    page.get_by_role("button", name="Take back").first.click()
    expect(page.get_by_text("Its messages start again")).to_be_visible()
    assert held() == "paused"
    page.get_by_role("button", name="Do it").click()
    expect(page.get_by_text("replayed: resumed")).to_be_visible()
    assert held() is None


@pytest.mark.either_broker
def test_at_every_width_nothing_is_cut_off(server: str, page: Page) -> None:
    for width in (400, 900, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        for path in (*PATHS, "/queue?name=left"):
            page.goto(f"{server}{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.either_broker
def test_by_keyboard_alone(server: str, page: Page) -> None:
    page.goto(f"{server}/queues")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="left", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Queue left")).to_be_visible()
    page.get_by_label("Quantum").focus()
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="What this will do")).to_be_visible()
    expect(page.get_by_role("button", name="Do it")).to_be_focused()


@pytest.mark.either_broker
def test_a_page_holds_still_when_it_is_told_to(server: str, page: Page) -> None:
    page.goto(f"{server}/queues")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.get_by_role("button", name="Hold still").click()
    expect(page.get_by_text("Held still")).to_be_visible()
    page.get_by_role("button", name="Hold still").click()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()


@pytest.mark.either_broker
def test_every_field_and_figure_has_a_name(server: str, page: Page) -> None:
    """As a screen reader has it: no button, field, picture or table cell is without."""
    for path in ("/queues", "/queue?name=left", "/dead-letters", "/actions"):
        page.goto(f"{server}{path}")
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('input:not([type=hidden]), button, [role=img]')]
            .filter((e) => !(e.labels?.length || e.ariaLabel || e.innerText.trim()
                || e.getAttribute('aria-label'))).map((e) => e.outerHTML)"""
        )
        assert nameless == []
        assert page.locator("main").count() == page.locator("h1").count() == 1
        assert (
            page.locator("td:not([data-label]):not(:has(*))").count()
            <= page.locator("table.counts td, td:empty").count()
        )


@pytest.mark.wide
@pytest.mark.either_broker
def test_read_only_has_no_buttons_and_no_way(
    worker: WorkerProcess, module_space: Space, page: Page, tmp_path: Path
) -> None:
    with serving(module_space, CONF, tmp_path) as address:
        page.goto(f"{address}/queue?name=left")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        assert page.locator("form[method=post]").count() == 0
        response = page.request.post(
            f"{address}/queue", form={"name": "left", "act": "pause", "step": "do"}
        )
        assert response.status == 403
        assert worker.inspect("_request", "fair_status")["left"]["held"] is None
        page.goto("about:blank")
