"""Logs and warehouse on file systems that are none of this machine's: what holds here, holds there.

Files of `viewfs` are really here, so that no server is needed; HDFS is one, `make hadoop` fetches
it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from celery_fair.cli import fair
from celery_fair.pipeline.errors import OvertakenError, PipelineError
from celery_fair.pipeline.storage.hadoop import HadoopStore
from celery_fair.pipeline.storage.java_files import JavaFiles
from celery_fair.pipeline.warehouse import (
    Pointer,
    Warehouse,
    _written,
    read_pointer,
    write_pointer,
)
from tests.conftest import running
from tests.documentation.commands import ROOT
from tests.pipeline.hdfs import JARS, Hdfs
from tests.pipeline.places import Elsewhere, viewed
from tests.pipeline.planted import Logs, Process
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    if not JARS.is_dir():
        pytest.skip("no HDFS: make hadoop fetches it")
    yield from running(Hdfs())


KINDS = ["viewfs", pytest.param("hdfs", marks=pytest.mark.wide)]


@pytest.fixture(params=KINDS)
def place(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> Iterator[Elsewhere]:
    if request.param == "viewfs":
        (tmp_path / "shared").mkdir()
        yield from viewed(spark, tmp_path / "shared")
    else:
        server: Hdfs = request.getfixturevalue("hdfs")
        yield Elsewhere(spark, server.url(f"/{tmp_path.name}"))


def run(*words: object) -> Result:
    return CliRunner().invoke(fair, ["pipeline", *map(str, words)])


def asked(*words: object) -> Any:
    done = run(*words, "--json", "--quiet")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def refused(*words: object) -> str:
    """What a command says that is refused: a line, and what to do."""
    done = run(*words, "--quiet")
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    (line,) = done.stderr.splitlines()
    return line


def plant(logs: Logs) -> None:
    """A worker that has ended, one whose file is open, and one of which nothing can be read."""
    worker = Process(queue="q").boots(0)
    worker.runs("twice", 1, published=0.5)
    worker.runs("twice", 3, published=0.5)
    worker.rejects("clean", 5, published=0)
    worker.ends(10)
    logs.plant(worker, under="host")
    busy = Process(queue="q").boots(20)
    busy.starts("running", 21)
    logs.write(f"host/_open-1700000020-celery@n-{busy.pid}-{busy.boot}-0.jsonl", busy.lines, "{")


def test_what_is_found_there(place: Elsewhere, logs: Logs, tmp_path: Path) -> None:
    """Bit by bit, by commands; and what was read is not read again."""
    plant(logs)
    there, warehouse = place.put(logs.folder, "logs"), f"{place.uri}/ware/house"
    first = asked("ingest", there, warehouse, "--one-writer", "--include-open")
    assert (first["version"], first["files"], first["open_files"], first["events"]) == (1, 1, 1, 9)
    late, others = Process(queue="q").boots(30), Logs(tmp_path / "late")
    late.runs("late", 31, published=30)
    others.plant(late)
    place.put(others.folder, "logs")
    second = asked("ingest", there, warehouse, "--one-writer")
    assert (second["version"], second["files"], second["events"]) == (2, 1, 3)
    verdicts = asked("audit", warehouse, "--one-writer")["verdicts"]
    assert {name: count for name, count in verdicts.items() if count} == {
        "DUPLICATE": 1,
        "REPLAYABLE": 1,
        "RUNNING": 1,
        "FINISHED": 1,
    }
    store = place.store("ware/house")
    assert {name.partition("/")[0] for name in _written(store)} == {
        name.partition("/")[0] for name in read_pointer(store).folders
    }


def test_of_those_who_publish_at_once_one_does(place: Elsewhere) -> None:
    """By themselves, where the store promises it; else those who come after the first see it."""
    root = place.store("warehouse")
    promised = place.uri.startswith("hdfs:")
    start, at_once = Barrier(3 if promised else 1), 3

    def publish(number: int) -> bool:
        store = HadoopStore(place.spark, str(root.root), one_writer=True)
        after = Pointer().with_table("t", [f"t/run=000001-{number}"], "id string")
        start.wait()
        try:
            write_pointer(store, Pointer(), after)
        except OvertakenError:
            return False
        return True

    with ThreadPoolExecutor(at_once if promised else 1) as threads:
        answers = list(threads.map(publish, range(at_once)))
    assert sorted(answers) == [False, False, True]
    present = read_pointer(root)
    assert present.version == 1
    assert present.tables["t"] == [f"t/run=000001-{answers.index(True)}"]
    name = "current-000001.json"
    assert not root.put(name, b"{}", new=True)  # who had looked before
    text = root.open(root.address(name))
    assert root.put(name, text, new=True)  # who has not heard that it was done
    assert read_pointer(root) == present
    assert not _written(root)
    # What a store is asked for whose files are seen when they are whole.
    root.create("once", b"1", conditional=False)
    with pytest.raises(FileExistsError, match="there is one"):
        root.create("once", b"2", conditional=False)
    assert root.open(root.address("once")) == b"1"


def test_who_is_gone_holds_nothing_when_its_lease_is_over(place: Elsewhere) -> None:
    """Meanwhile others publish, and leave alone what it has written."""
    here = Warehouse(place.spark, place.store("warehouse"))
    rows = place.spark.range(1)
    first = here.begin(make=True)
    first.replace("t", rows)
    first.publish()
    first.release()
    gone = Warehouse(place.spark, place.store("warehouse")).begin()
    gone.replace("u", rows)
    (left,) = gone.pointer.tables["u"]
    beats = gone.hold.check.__self__
    beats._over.set()  # as if its machine had lost its power

    with here.publishing() as run:
        run.replace("t", rows)
    assert left in _written(here.store)
    beats._last -= 60
    with pytest.raises(PipelineError, match=r"for more than 60 seconds: .* run it again"):
        gone.publish()
    now = here.store.changed("current-000002.json")
    place.age(f"warehouse/{beats.file}", 0)
    lived = here.store.changed(beats.file)
    found = here.store.held(lived + 119)
    assert found is not None
    assert beats.file.endswith(tuple(found.marks))
    here.store.write(beats.file, b"")  # as one sees it that is just being written
    assert here.store.held(now) is None
    place.age(f"warehouse/{beats.file}", 121)
    with here.publishing() as run:
        run.replace("t", rows)
    assert left not in _written(here.store)
    assert read_pointer(here.store).version == 3


def test_an_error_after_a_version_was_published_is_none(
    place: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store may make the file, and its answer be lost, or be one that nobody knows."""
    store, made, name = place.store("warehouse"), JavaFiles.rename, "current-000001.json"

    def unheard(files: JavaFiles, name: str, target: str) -> bool:
        if loses:
            made(files, name, target)
        raise PipelineError("409")

    monkeypatch.setattr(JavaFiles, "rename", unheard)
    monkeypatch.setattr("celery_fair.pipeline.storage.hadoop._RENAMES", (store.scheme(),))
    loses = False
    with pytest.raises(PipelineError, match="409"):
        store.put(name, b"{}", new=True)
    assert store.in_doubt
    loses = True
    assert store.put(name, b"{}", new=True)
    assert not store.in_doubt


def test_what_cannot_be_done_is_told(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    plant(logs)
    warehouse = tmp_path / "warehouse"
    said = refused("ingest", "nosuch://bucket/logs", warehouse)
    assert 'No FileSystem for scheme "nosuch"' in said
    said = refused("ingest", "s3a://bucket/logs", warehouse)
    assert "spark.jars.packages=org.apache.hadoop:hadoop-aws:3." in said
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        spark.conf.set("ipc.client.connect.max.retries", "0")
        down = f"hdfs://127.0.0.1:{nobody.getsockname()[1]}"
        said = refused("ingest", f"{down}/logs", warehouse)
        assert "Connection refused; see that the store runs" in said
        assert "see that the store runs" in refused("report", f"{down}/w", tmp_path / "report.html")
        spark.conf.unset("ipc.client.connect.max.retries")
    assert not warehouse.exists()
    (tmp_path / "shared").mkdir()
    for place in viewed(spark, tmp_path / "shared"):
        there = f"{place.uri}/warehouse"
        assert "is no folder" in refused("ingest", f"{place.uri}/logs", warehouse)
        assert "say so with --one-writer" in refused("ingest", logs.folder, there)
        assert "has no table 'attempts'" in refused("waits", there)
    done = run("stream", "s3a://bucket/logs", tmp_path / "out")
    assert done.exit_code == 2
    assert "'s3a://bucket/logs' is not on this machine" in done.stderr


def test_a_store_is_tried_that_speaks_like_one_that_promises(
    spark: SparkSession, logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No store is to be had here whose rename replaces a file; that of `viewfs` is made to."""
    plant(logs)
    rename = JavaFiles.rename

    def replacing(files: JavaFiles, name: str, target: str) -> bool:
        if target.endswith(("/once", ".json")):
            files.remove(target)
        return rename(files, name, target)

    monkeypatch.setattr("celery_fair.pipeline.storage.hadoop._RENAMES", ("file",))
    monkeypatch.setattr(JavaFiles, "rename", replacing)
    (tmp_path / "shared").mkdir()
    for place in viewed(spark, tmp_path / "shared"):
        there = f"{place.uri}/warehouse"
        said = refused("ingest", logs.folder, there)
        assert "has let a file be replaced that was to be made only once" in said
        assert "say so with --one-writer" in said
        assert not _written(place.store("warehouse"))
        assert asked("ingest", logs.folder, there, "--one-writer")["version"] == 1
        monkeypatch.setattr(JavaFiles, "rename", rename)
        assert asked("waits", there)
        assert not place.store("warehouse").names("*tried*")


@pytest.mark.wide
def test_an_ingest_is_killed(spark: SparkSession, hdfs: Hdfs, logs: Logs) -> None:
    """On HDFS: what was there can be read, the next takes over at once, and later clears up."""
    place = Elsewhere(spark, hdfs.url("/killed"))
    warehouse = Warehouse(spark, place.store("warehouse"))

    def ingested(name: str) -> dict[str, Any]:
        process = Process().boots(0)
        process.runs(name, 1)
        logs.plant(process)
        return asked("ingest", place.put(logs.folder, "logs"), f"{place.uri}/warehouse")

    def ids() -> set[str]:
        return {row["id"] for row in warehouse.table("attempts").collect()}

    ingested("a")
    process = Process().boots(0)
    process.runs("b", 1)
    logs.plant(process)
    command = ("tests.pipeline.killed", "silver", place.put(logs.folder, "logs"))
    killed = subprocess.run(
        [sys.executable, "-m", *command, f"{place.uri}/warehouse", "1"],
        cwd=ROOT,
        env=os.environ,
        stdout=subprocess.PIPE,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert ids() == {"a"}
    assert ingested("c")["version"] == 2
    assert ids() == {"a", "b", "c"}
    brief = place.store("warehouse", seconds=1.0)
    (left,) = brief.names(".held-*")
    wait_for(lambda: is_over(brief, left), 30)
    ingested("d")
    present = read_pointer(warehouse.store)
    former = json.loads(brief.open(brief.address("current-000002.json")))
    kept = {folder for folders in former["tables"].values() for folder in folders}
    assert set(_written(brief)) <= present.folders | kept


def is_over(store: HadoopStore, lease: str) -> bool:
    """Whether a lease is, and has been removed."""
    store.write("now", b"")
    found = store.held(store.changed("now"))
    return found is not None and not store.names(lease)


@pytest.mark.wide
def test_a_report_of_what_is_on_hdfs(hdfs: Hdfs, spark: SparkSession, logs: Logs) -> None:
    plant(logs)
    place = Elsewhere(spark, hdfs.url("/reported"))
    warehouse = f"{place.uri}/warehouse"
    asked("ingest", place.put(logs.folder, "logs"), warehouse)
    html = logs.folder / "report.html"
    assert asked("report", warehouse, html)["verdicts"]["DUPLICATE"] == 1
    for command in ("fairness", "costs"):
        asked(command, warehouse)
    assert "<html" in html.read_text()
