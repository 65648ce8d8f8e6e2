"""A Java is found where there is one, and what is missing is named."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.pipeline import doctor, java
from celery_fair.pipeline.doctor import examined
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.java import Java, candidates, find_java
from tests.pipeline.planted import pretend_warehouse

VERSIONS = {
    'openjdk version "17.0.15" 2025-04-15': 17,
    'openjdk version "21" 2023-09-19': 21,
    'java version "1.8.0_202"': 8,
    "something else": None,
}


def plant(home: Path, says: str) -> Path:
    """Make a folder that looks like a Java's."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}\n    java.home = {home}' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_PLACES", ())


@pytest.mark.parametrize(("says", "version"), VERSIONS.items())
def test_versions(tmp_path: Path, says: str, version: int | None) -> None:
    plant(tmp_path, says)
    found = [each.version for each in candidates({"JAVA_HOME": str(tmp_path)})]
    assert found == ([] if version is None else [version])


def test_program_that_is_not(tmp_path: Path) -> None:
    assert not list(candidates({"JAVA_HOME": str(tmp_path)}))


def test_first_that_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path / "old", 'version "11.0.1"')
    on_path = plant(tmp_path / "new", 'version "21.0.1"').parent
    plant(tmp_path / "jvm" / "placed", 'version "25"')
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(on_path)}
    assert find_java(environ) == Java(str(tmp_path / "new"), 21, "PATH")
    monkeypatch.setattr(java, "_PLACES", (f"{tmp_path}/jvm/*",))
    found = find_java(environ | {"PATH": ""})
    assert found == Java(str(tmp_path / "jvm" / "placed"), 25, f"{tmp_path}/jvm/*")


def test_a_shim_knows_the_home_that_it_starts(tmp_path: Path) -> None:
    """Spark starts bin/java of a home, and a shim is in none."""
    home = plant(tmp_path / "real", 'version "21.0.1"').parents[1]
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(f"#!/bin/sh\necho 'version \"21\"\n    java.home = {home}' >&2\n")
    shim.chmod(0o755)
    environ = {"PATH": str(shim.parent)}
    assert find_java(environ) == Java(str(home), 21, "PATH")
    shim.write_text("#!/bin/sh\necho 'version \"21\"' >&2\n")
    with pytest.raises(PipelineError, match="found: none"):
        find_java(environ)


@pytest.mark.wide
@pytest.mark.parametrize(("says", "found"), [('version "11.0.1"', "11 ({home})"), ("hm", "none")])
def test_a_command_without_a_usable_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, found: str
) -> None:
    plant(tmp_path, says)
    pretend_warehouse(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    done = CliRunner().invoke(fair, ["pipeline", "waits", str(tmp_path), "--quiet"])
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: no usable Java; found: {found.format(home=tmp_path)}. Spark")


def test_findings_without_java(tmp_path: Path) -> None:
    plant(tmp_path, 'version "11.0.1"')
    first, *others = examined({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert (first.topic, first.good) == ("java", False)
    assert f"found: 11 ({tmp_path})" in first.text
    assert "openjdk-17-jre-headless" in first.text
    assert all(finding.good for finding in others)


def test_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "pandas":
            raise PackageNotFoundError
        return "4.0"

    monkeypatch.setattr(doctor, "version", version)
    wrong = {finding.topic: finding.text for finding in examined({}) if not finding.good}
    assert wrong.keys() == {"java", "pandas"}
    assert wrong["pandas"] == "is not installed; pip install celery-fair[spark]"


@pytest.mark.wide
def test_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    done = CliRunner().invoke(fair, ["pipeline", "doctor"])
    assert done.exit_code == 1
    assert "wrong  java" in done.stdout
    plant(tmp_path, 'version "17.0.1"')
    done = CliRunner().invoke(fair, ["pipeline", "doctor", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)[0]["text"] == f"17, {tmp_path}, by JAVA_HOME"
