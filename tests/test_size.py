"""What `make lint` counts as code, and what it finds too large."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

SCRIPT = ROOT / "scripts" / "size.py"

FIVE = '''
"""An essay.

Of several lines."""
import os

# a comment
def work(
    path,
):
    """What it does."""
    return os.stat(path)  # and why
'''


def sized(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_blanks_comments_and_docstrings_are_no_code(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(FIVE)
    done = sized(tmp_path)
    assert (done.returncode, done.stdout) == (0, "5 lines of code in 1 files\n")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\n" * 401, "has 401 lines"),
        ("class A:\n" + "".join(f"    def m{n}(self): ...\n" for n in range(21)), "21 methods"),
        ("class A:\n    def __init__(self, a, b, c, d, e, f, g, *, h, i): ...\n", "9 arguments"),
    ],
)
def test_what_is_too_large(tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "one.py").write_text(source)
    done = sized(tmp_path)
    assert done.returncode == 1
    assert said in done.stdout


def test_a_folder_of_too_many_files(tmp_path: Path) -> None:
    for number in range(17):
        (tmp_path / f"m{number}.py").touch()
    assert "has 17 modules" in sized(tmp_path).stdout
