"""The command that seals what killed workers have left, given a right and a wrong folder."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from celery_fair.cli import fair


def seal(folder: Path) -> Result:
    return CliRunner().invoke(fair, ["pipeline", "seal", str(folder)], catch_exceptions=False)


def test_a_folder_without_a_log_is_told_and_ends_no_pod(tmp_path: Path) -> None:
    done = seal(tmp_path)
    assert done.exit_code == 0
    assert done.stdout == "sealed 0 files of processes that are gone\n"
    assert f"no host has a folder with an event log in {tmp_path}: if a worker" in done.stderr


def test_the_folder_of_a_host_is_refused(tmp_path: Path) -> None:
    left = tmp_path / "host" / "_open-1-n-1-b-0.jsonl"
    left.parent.mkdir()
    left.write_text("{}\n")
    refused = seal(left.parent)
    assert refused.exit_code == 1
    assert (
        f"{left.parent} itself has open files, as {left.name}, which are not sealed"
        in refused.stderr
    )
    assert left.exists()


def test_a_folder_with_a_log_is_not_warned_of(tmp_path: Path) -> None:
    sealed = tmp_path / "host" / "1-n-1-b-0.jsonl"
    sealed.parent.mkdir()
    sealed.write_text("{}\n")
    done = seal(tmp_path)
    assert (done.exit_code, done.stderr) == (0, "")
