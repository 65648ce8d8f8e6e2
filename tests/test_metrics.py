"""What a worker tells Prometheus, where it serves it, and the dashboard over it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import psutil
import pytest
from celery import Celery
from celery.exceptions import ImproperlyConfigured
from click.testing import CliRunner
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from celery_fair.cli import fair
from celery_fair.core.keys.sketch import OTHER
from celery_fair.settings import Settings
from celery_fair.settings.values import Address
from celery_fair.worker.observe.figures import BOUNDS, Labels, Observed
from celery_fair.worker.observe.metrics import MetricsServer
from tests.apps.settings import CONSTANTS
from tests.brokers import RabbitMQ, Space
from tests.documentation.commands import ROOT
from tests.documentation.promtool import promtool
from tests.integration.gate import Gate
from tests.ports import accepts, free_port
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess, starting_workers

OF_KEYS = {
    "celery_fair_key_started_total",
    "celery_fair_key_running",
    "celery_fair_first_wait_seconds_bucket",
}
"""Of queues that are shared by key; `tests.keys.test_metrics` has a worker with such."""

SETTINGS = ROOT / "docs" / "settings.md"
MONITORING = ROOT / "docs" / "how-to" / "metrics.md"

Samples = dict[tuple[str, ...], float]


def queues(port: int) -> set[str]:
    return {names[1] for names in samples(port) if len(names) > 1}


def text_of(address: object) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def samples(port: int) -> Samples:
    """The values, by the metric's name and its labels' values, the queue's first."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items(), key=by_queue))): (
            sample.value
        )
        for family in text_string_to_metric_families(text_of(Address("127.0.0.1", port)))
        for sample in family.samples
    }


def by_queue(label: tuple[str, str]) -> bool:
    return label[0] != "queue"


# The settings -------------------------------------------------------------


def settings(**conf: Any) -> Settings:
    app = Celery("metrics", set_as_current=False)
    app.conf.update(conf)
    return Settings.of(app)


@pytest.mark.parametrize(
    ("value", "host", "port"),
    [
        ("127.0.0.1:9808", "127.0.0.1", 9808),
        ("localhost:1", "localhost", 1),
        ("[::1]:65535", "::1", 65535),
    ],
)
def test_address(value: str, host: str, port: int) -> None:
    address = settings(fair_metrics=value).metrics
    assert address == (host, port)
    assert str(address) == value


@pytest.mark.parametrize(
    "value", ["9808", ":9808", 9808, "", "host:0", "host:65536", "a:b:1", "::1:9808", "h:1 ", True]
)
def test_no_address(value: object) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"fair_metrics must be 'host:port'") as caught:
        settings(fair_metrics=value)
    assert repr(value) in str(caught.value)


# What is counted ----------------------------------------------------------


def test_first_queues_keep_their_labels() -> None:
    labels = Labels(2, ["configured"])
    assert [labels.of(q) for q in ("b", "c", "b", "configured")] == ["b", OTHER, "b", "configured"]


def test_held_seconds_never_go_back() -> None:
    observed = Observed(Labels(1).of)
    observed.held("a", "leash", 10.0)
    assert observed.held_seconds(12.0) == {("a", "leash"): 2.0}
    observed.released("a", 13.0)
    observed.released("a", 99.0)
    observed.held("a", "leash", 17.0)
    observed.held("a", "leash", 18.0)  # it became urgent meanwhile, say
    observed.held("a", "cap", 20.0)
    observed.held("b", "cap", 20.0)
    assert observed.held_seconds(21.0) == {
        ("a", "leash"): 6.0,
        ("a", "cap"): 1.0,
        (OTHER, "cap"): 1.0,
    }


def test_waits_are_counted_in_their_classes() -> None:
    observed = Observed(str)
    for waited in (0.0, BOUNDS[0], 2.0, 1e6):
        observed.started("a", waited)
    counts, seconds = observed.waits()["a"]
    assert (counts[0], counts[BOUNDS.index(2.5)], counts[-1]) == (2, 1, 1)
    assert seconds == pytest.approx(BOUNDS[0] + 2.0 + 1e6)


# A worker -----------------------------------------------------------------

FAIR = {
    "busy": {"quantum": 3, "target": "95% < 1min"},
    "leashed": {"rate": 0.001, "burst": 1},
    "capped": {"max_in_flight": 1},
}


@pytest.fixture(scope="module")
def space(rabbitmq: RabbitMQ) -> Space:
    return rabbitmq.space()


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def worker(
    space: Space, port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    most = {"celery_fair.worker.process._METRICS_QUEUES": 4}
    conf = {"fair_queues": FAIR, "fair_metrics": f"127.0.0.1:{port}", CONSTANTS: most}
    with starting_workers(tmp_path_factory.mktemp("metrics")) as start:
        yield start(space, pool="threads", concurrency=4, conf=conf)


def test_served_shares_and_waits(worker: WorkerProcess, port: int, space: Space) -> None:
    before = samples(port)
    assert before["celery_fair_served_messages_total", "busy"] == 0
    assert before["celery_fair_slots",] == 4

    began = monotonic()
    worker.records.started.wait_once(publish(space.url, {"busy": 30}).all())

    wait_equal(lambda: samples(port)["celery_fair_served_messages_total", "busy"], 30)
    after = samples(port)
    assert after["celery_fair_served_cost_total", "busy"] == 30
    assert after["celery_fair_achieved_share", "busy"] == 1
    assert after["celery_fair_target_share", "busy"] == 1
    assert after["celery_fair_window_messages", "busy"] >= 2
    assert after["celery_fair_buffered_messages", "busy"] == 0
    assert after["celery_fair_wait_seconds_count", "busy"] == 30
    assert after["celery_fair_wait_seconds_bucket", "busy", "+Inf"] == 30
    assert 0 < after["celery_fair_wait_seconds_sum", "busy"] < 30 * (monotonic() - began)
    assert after["celery_fair_target_seconds", "busy"] == 60
    assert after["celery_fair_target_part", "busy"] == 0.95
    assert 0 <= after["celery_fair_target_wait_seconds", "busy"] < 60
    assert after["celery_fair_target_in_time_part", "busy"] == 1
    assert after["celery_fair_slots_needed",] >= 0


def test_held_seconds_grow_while_held(worker: WorkerProcess, port: int, space: Space) -> None:
    gate = Gate()
    publish(space.url, {"leashed": 2, "capped": 2}, "hold", [str(gate.path)])
    wait_equal(lambda: samples(port)["celery_fair_in_flight_messages", "capped"], 1)

    def held(*names: str) -> float:
        return samples(port)["celery_fair_held_seconds_total", *names]

    wait_for(lambda: held("leashed", "leash") > 0 < held("capped", "cap"), 30)
    first = held("capped", "cap")
    wait_for(lambda: held("capped", "cap") > first, 30)
    assert held("busy", "leash") == held("leashed", "cap") == 0
    assert samples(port)["celery_fair_buffered_messages", "capped"] == 1
    assert samples(port)["celery_fair_busy_slots",] == 2

    worker.control("fair_pause", queue="busy")
    publish(space.url, {"busy": 1})
    wait_for(lambda: held("busy", "paused") > 0, 30)
    worker.control("fair_resume", queue="busy")
    gate.open()


def test_queues_beyond_the_limit_are_one(worker: WorkerProcess, port: int, space: Space) -> None:
    assert queues(port) == {*FAIR, "celery"}
    worker.control("add_consumer", queue="x1")
    worker.control("add_consumer", queue="x2")
    ids = publish(space.url, {"x1": 3, "x2": 4})
    worker.records.started.wait_once(ids.all())

    wait_for(lambda: samples(port)["celery_fair_served_messages_total", OTHER] >= 7, 30)
    assert queues(port) == {*FAIR, "celery", OTHER}


@pytest.fixture(scope="module")
def two_letters(worker: WorkerProcess, port: int, space: Space) -> None:
    """Before the first there is no queue of theirs, and nothing is said of it."""
    publish(space.url, {"celery": 2}, "nosuchtask")
    wait_equal(lambda: samples(port).get(("celery_fair_dead_letter_messages",)), 2, timeout=30)


def test_dead_letters(two_letters: None, port: int) -> None:
    assert samples(port)["celery_fair_dead_letters_total", "celery", "unknown-task"] == 2


def test_what_waits_at_the_broker(worker: WorkerProcess, port: int, space: Space) -> None:
    worker.control("fair_pause", queue="busy")
    publish(space.url, {"busy": 500})
    known = ("celery_fair_waiting_messages", "busy"), ("celery_fair_buffered_messages", "busy")
    wait_equal(lambda: sum(samples(port).get(name, 0) for name in known), 500, timeout=30)
    assert samples(port)[known[0]] > 0
    worker.control("fair_resume", queue="busy")
    wait_equal(lambda: samples(port)["celery_fair_waiting_messages", "busy"], 0, timeout=30)


def test_metrics_of_the_documentation_exist(two_letters: None, port: int) -> None:
    """Those in the list of the settings, and those that the alerts are made of."""
    existing = {re.sub(r"_(bucket|sum|count)$", "", name) for name, *_ in samples(port)}
    listed = re.search(r"\| metric \|.*?\n\n", SETTINGS.read_text(), re.DOTALL)
    assert listed
    names = {f"celery_fair_{name}" for name in re.findall(r"`(\w+)`(?=[^|]* \| \w)", listed[0])}
    of_keys = {re.sub(r"_bucket$", "", name) for name in OF_KEYS}
    assert names == existing | of_keys
    used = set(re.findall(r"\bcelery_fair_\w+", MONITORING.read_text()))
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in used} <= names


def test_dashboard_uses_metrics_that_exist(two_letters: None, port: int) -> None:
    dashboard = shown_dashboard()
    existing = {name for name, *_ in samples(port)}
    used = [
        name
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
        for name in re.findall(r"\bcelery_fair_\w+", target["expr"])
    ]
    queries = [v["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    used += re.findall(r"\bcelery_fair_\w+", json.dumps(queries))
    assert set(used) >= OF_KEYS
    assert set(used) - OF_KEYS <= existing
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in existing}
    assert shown <= {re.sub(r"_bucket$", "", name) for name in used}  # nothing is left out


def shown_dashboard() -> Any:
    """What the command prints, from the installed package."""
    done = CliRunner().invoke(fair, ["web", "dashboard"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_dashboard_can_be_imported() -> None:
    dashboard = shown_dashboard()
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["title"]
        assert panel["description"]
        assert panel["targets"]


def unknown_to_grafana(shown: Any, known: Any, place: str = "") -> Iterator[str]:
    """What of a dashboard is not there, or not the same, after Grafana's models have read it."""
    if isinstance(shown, dict) and isinstance(known, dict):
        for name, value in shown.items():
            yield from unknown_to_grafana(value, known.get(name), f"{place}.{name}")
    elif isinstance(shown, list) and isinstance(known, list) and len(shown) == len(known):
        for number, pair in enumerate(zip(shown, known, strict=True)):
            yield from unknown_to_grafana(*pair, f"{place}[{number}]")
    elif shown != known:
        yield place


def test_the_dashboard_has_no_field_that_grafana_does_not_know() -> None:
    register_default_plugins()

    def unknown(shown: Any) -> list[str]:
        known = json.loads(JSONEncoder().encode(Dashboard.from_json(shown)))
        return list(unknown_to_grafana(shown, known))

    shown = shown_dashboard()
    assert unknown(shown) == []
    shown["panels"][0]["fieldConfig"]["defaults"]["unitt"] = "s"
    assert unknown(shown) == [".panels[0].fieldConfig.defaults.unitt"]


def test_expressions_of_the_dashboard_are_promql(tmp_path: Path) -> None:
    targets = [target for panel in shown_dashboard()["panels"] for target in panel["targets"]]
    rules = [
        {"record": f"expression:{n}", "expr": target["expr"].replace("$__rate_interval", "1m")}
        for n, target in enumerate(targets)
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", path)


# The server ---------------------------------------------------------------


def listening(process: psutil.Process) -> set[int]:
    return {c.laddr.port for c in process.net_connections("tcp") if c.status == "LISTEN"}


def test_children_do_not_hold_the_port(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    port = free_port()
    conf = {"fair_metrics": f"127.0.0.1:{port}"}
    worker = start_worker(rabbitmq_space, pool="prefork", conf=conf)
    assert port in listening(psutil.Process(worker.pid))
    before = worker.children()

    worker.control("pool_grow", n=1)
    wait_for(lambda: len(worker.children()) > len(before), 30)
    for child in worker.children():
        wait_for(lambda child=child: port not in listening(child), 30, "the child to close it")

    worker.kill()
    assert not accepts(port)
    with socket.socket() as successor:
        successor.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        successor.bind(("127.0.0.1", port))
        successor.listen()


@pytest.fixture
def refused(start_worker: StartWorker) -> Callable[..., str]:
    """Starts a worker that cannot start; returns what it printed."""

    def start(**options: Any) -> str:
        worker = start_worker("memory://", wait=False, **options)
        assert worker.wait() != 0
        return worker.log()

    return start


def test_port_in_use(refused: Callable[..., str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        log = refused(conf={"fair_metrics": address})
    assert f"fair_metrics: cannot listen at {address}: Address already in use" in log
    assert "a port of its own" in log


def test_address_of_another_machine() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"cannot listen at 192\.0\.2\.1:9808: \w+"):
        MetricsServer(Address("192.0.2.1", 9808), CollectorRegistry())


@pytest.mark.parametrize("host", ["localhost", "::1"])
def test_server_ends(host: str) -> None:
    if host == "::1" and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    address = Address(host, free_port())
    server = MetricsServer(address, CollectorRegistry())
    server.start()
    server.start()
    assert text_of(address) == ""
    server.close()
    with pytest.raises(OSError, match="refused"):
        text_of(address)
    MetricsServer(address, CollectorRegistry()).close()


def test_missing_package(refused: Callable[..., str]) -> None:
    app = 'import sys\nsys.modules["prometheus_client"] = None\nfrom tests.apps.shares import *\n'
    log = refused(app=app, conf={"fair_metrics": f"127.0.0.1:{free_port()}"})
    assert "pip install celery-fair[prometheus]" in log


def test_nothing_is_loaded_unless_asked_for() -> None:
    code = "import sys, celery_fair.worker.step; print('prometheus_client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
