"""Java's archive of classes: made once, used when it is whole, and never in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from celery_fair.pipeline.java import archive_options
from celery_fair.pipeline.session import _OPTIONS, Work, _for
from tests.waiting import wait_for

MAKES, USES = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    java = tmp_path / "java"
    java.mkdir()
    (java / "release").write_text('JAVA_VERSION="17.0.15"')
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "JAVA_HOME": str(java)}


def archive_of(options: str) -> Path:
    return Path(options.partition(MAKES)[2].split()[0])


def test_one_makes_it_and_those_after_it_use_it(environ: dict[str, str]) -> None:
    archive = archive_of(archive_options(environ))
    assert archive_options(environ) == ""  # it is being made
    archive.write_bytes(b"\0\0\0\0classes")
    assert archive_options(environ) == ""  # Java writes the beginning last
    archive.write_bytes(b"CDS!classes")
    used = archive_options(environ)
    assert used.startswith(USES)
    assert Path(used.removeprefix(USES).split()[0]).read_bytes() == b"CDS!classes"
    assert archive_options(environ) == used
    Path(environ["JAVA_HOME"], "release").write_text('JAVA_VERSION="21"')
    assert MAKES in archive_options(environ)  # that is another Java


def test_what_is_left_is_made_anew_or_removed(environ: dict[str, str]) -> None:
    """By one who was killed, or of a Java that is gone."""
    archive = archive_of(archive_options(environ))
    os.utime(archive, (0, time.time() - 601))
    unused = archive.with_name("classes-0123456789abcdef.jsa")
    unused.touch()
    os.utime(unused, (0, time.time() - 601))
    assert MAKES in archive_options(environ)
    assert not unused.exists()


def test_none_is_made_where_there_is_much_to_do(environ: dict[str, str]) -> None:
    assert archive_options(environ, makes=False) == ""
    assert MAKES in archive_options(environ)


def test_none_where_others_may_write(environ: dict[str, str]) -> None:
    """Java runs what is in it."""
    archive = archive_of(archive_options(environ))
    archive.write_bytes(b"CDS!")
    archive.parent.chmod(0o777)
    assert archive_options(environ) == ""


@pytest.mark.parametrize("place", ["/proc/no/such", "a folder", "a:folder", "file"])
def test_a_place_where_there_cannot_be_one(
    environ: dict[str, str], tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").touch()
    assert archive_options(environ | {"XDG_CACHE_HOME": str(tmp_path / place)}) == ""


def test_a_session_makes_it_and_the_next_one_uses_it(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it has much to do: what is archived is what takes long in a short life."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert MAKES not in _for(Work.MUCH, {})[_OPTIONS]
    archive_of(_for(Work.LITTLE, {})[_OPTIONS]).write_bytes(b"CDS!")
    for work in Work:
        assert USES in _for(work, {})[_OPTIONS]


_LOOKS = """
import json, os
from pathlib import Path
from celery_fair.pipeline.session import Work, open_session
spark = open_session("local[1]", work=Work.LITTLE)
java = spark.sparkContext._gateway.proc.pid
maps = Path(f"/proc/{java}/maps").read_text()
print(json.dumps({"counted": spark.range(7).count(), "mapped": "celery-fair/classes-" in maps}))
"""


@pytest.mark.wide
def test_java_makes_and_maps_it(tmp_path: Path) -> None:
    """And has no part in standard output."""

    def looks() -> object:
        done = subprocess.run(
            [sys.executable, "-c", _LOOKS],
            env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            check=True,
        )
        return json.loads(done.stdout)

    assert looks() == {"counted": 7, "mapped": False}
    folder = tmp_path / "celery-fair"

    def is_whole() -> bool:  # Java removes the draft, and makes it anew
        with suppress(FileNotFoundError):
            return any(any(draft.read_bytes()[:4]) for draft in folder.iterdir())
        return False

    wait_for(is_whole, 120, "the archive")
    assert looks() == {"counted": 7, "mapped": True}
