"""Setting up where something is missing: a sentence says what to do, and the next try works.

That it works where nothing is missing shows in that these tests run.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT

pytestmark = [pytest.mark.newest, pytest.mark.timeout(400)]  # Python makes a folder with pip

TAKEN = ("Makefile", "pyproject.toml", "constraints.txt", "constraints-celery.txt", "scripts")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What of a checkout is read before anything is installed."""
    for name in TAKEN:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def no_index() -> Iterator[dict[str, str]]:
    """An environment in which the package index refuses connections."""
    with socket.socket() as taken:  # bound, and never listened at
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/simple"
        yield {"PIP_INDEX_URL": url, "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}


def make_demo(checkout: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", "demo"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_", "MAKE"))}
    return subprocess.run(
        command,
        cwd=checkout,
        env=clean | {"HOME": str(checkout), "PYTHON": sys.executable} | environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=350,
    )


def test_no_python(checkout: Path) -> None:
    done = make_demo(checkout, {"PYTHON": "/nowhere/python"})

    assert done.returncode
    assert "needs Python 3.11 or newer; /nowhere/python is not there" in done.stderr
    assert "make PYTHON=" in done.stderr


def test_old_python(checkout: Path) -> None:
    old = checkout / "python3.10"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] || exit 1\necho Python 3.10.13\n')
    old.chmod(0o755)

    done = make_demo(checkout, {"PYTHON": str(old)})

    assert done.returncode
    assert f"{old} is Python 3.10.13" in done.stderr


@pytest.mark.wide
def test_a_python_in_a_folder_with_a_space(checkout: Path, no_index: dict[str, str]) -> None:
    folder = checkout / "py dir"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)

    done = make_demo(checkout, no_index | {"PYTHON": str(folder / "python")})

    assert "fetching uv" in done.stderr  # and so it was taken


@pytest.mark.wide
def test_another_python_makes_another_folder(checkout: Path, no_index: dict[str, str]) -> None:
    of_another = checkout / ".venv" / "bin" / "python"
    of_another.parent.mkdir(parents=True)
    of_another.write_text("#!/bin/sh\necho 3 10 0 /elsewhere\n")  # it has pip, too
    of_another.chmod(0o755)
    for stamp in (".made", ".demo"):
        (checkout / ".venv" / stamp).write_text(f"{checkout.resolve()}\n")

    make_demo(checkout, no_index)

    assert of_another.is_symlink()


@pytest.mark.wide
def test_no_network(checkout: Path, no_index: dict[str, str]) -> None:
    done = make_demo(checkout, no_index)

    assert done.returncode
    assert "it failed while fetching uv with pip" in done.stderr
    assert "give the same command again" in done.stderr
    assert not (checkout / ".venv" / ".demo").exists()


@pytest.mark.wide
def test_what_was_broken_off_is_made_anew(checkout: Path, no_index: dict[str, str]) -> None:
    half = checkout / ".venv" / "lib" / "half"
    half.mkdir(parents=True)

    make_demo(checkout, no_index)

    assert not half.exists()
    assert (checkout / ".venv" / ".unfinished").exists()  # and so is this one, the next time


@pytest.mark.wide
def test_a_folder_that_was_moved_is_made_anew(checkout: Path, no_index: dict[str, str]) -> None:
    venv = checkout / ".venv"
    venv.mkdir()
    (venv / ".made").write_text("/elsewhere\n")
    (venv / ".demo").write_text("/elsewhere\n")

    make_demo(checkout, no_index)

    assert (venv / ".made").read_text() == f"{checkout.resolve()}\n"
    assert not (venv / ".demo").exists()
