"""Which version of a warehouse is the present one, however many publish at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.storage.pointer import FORMAT, Pointer, read_pointer, write_pointer

AT_ONCE = 4


def test_of_those_who_publish_at_once_one_does(tmp_path: Path) -> None:
    """The others are told so, and the present version is the winner's."""
    before = Pointer()
    start = Barrier(AT_ONCE)

    def publish(number: int) -> Pointer | str:
        after = before.with_table("t", [f"t/run={before.version}-{number}"], "id string")
        after = Pointer(before.version + 1, after.tables, after.schemas)
        start.wait()
        try:
            write_pointer(tmp_path, before, after)
        except PipelineError as exc:
            return str(exc)
        return after

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for version in range(1, 51):
            answers = list(threads.map(publish, range(AT_ONCE)))
            won = [answer for answer in answers if isinstance(answer, Pointer)]
            refused = [answer for answer in answers if isinstance(answer, str)]
            assert won == [read_pointer(tmp_path)]
            assert all(f"has published version {version} of" in answer for answer in refused)
            (before,) = won
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("text", ["", "{}", '{"v": 1}', "[]", '{"v": 1, "version": "x"}'])
def test_what_is_no_pointer(tmp_path: Path, text: str) -> None:
    (tmp_path / "current-000001.json").write_text(text)
    with pytest.raises(PipelineError, match="is this a warehouse"):
        read_pointer(tmp_path)


def test_a_warehouse_of_another_format(tmp_path: Path) -> None:
    text = {"v": FORMAT + 8, "version": 1, "tables": {}, "schemas": {}}
    (tmp_path / "current-000001.json").write_text(json.dumps(text))
    told = (
        f"a warehouse of format {FORMAT + 8}, and this celery-fair reads {FORMAT}: use the version"
    )
    with pytest.raises(PipelineError, match=told):
        read_pointer(tmp_path)


def test_who_may_read_the_tables_may_read_which_they_are(tmp_path: Path) -> None:
    """One user ingests, another one asks."""
    write_pointer(tmp_path, Pointer(), Pointer(1))
    (tmp_path / "table").touch()
    assert (tmp_path / "current-000001.json").stat().st_mode == (tmp_path / "table").stat().st_mode


def test_who_publishes_other_tables_is_not_in_the_way(tmp_path: Path) -> None:
    before = Pointer().with_table("old", ["old/run=1"], "id string")
    _, before = write_pointer(tmp_path, Pointer(), before)
    silver = before.with_table("attempts", ["attempts/run=2"], "id string")
    gold = before.with_table("audit", ["audit/run=2"], "id long")
    write_pointer(tmp_path, before, silver)
    present, published = write_pointer(tmp_path, before, gold)
    assert (present.version, published.version) == (2, 3)
    assert published == read_pointer(tmp_path)
    tables = {"old": ["old/run=1"], "attempts": ["attempts/run=2"], "audit": ["audit/run=2"]}
    assert published.tables == tables
    assert published.schemas == {"old": "id string", "attempts": "id string", "audit": "id long"}
