"""What somebody uses in a warehouse, and what of those who are gone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from celery_fair.pipeline.storage.store import Store


def test_who_is_gone_holds_nothing(tmp_path: Path) -> None:
    """However it ended: here it could not remove what it had left."""
    store = Store(tmp_path)
    hold = store.hold("aaaaaa", ["t/run=1"])
    left = tmp_path / ".held-bbbbbb"
    left.write_text(json.dumps(["t/run=2"]))
    assert store.held() == ({"t/run=1"}, {"aaaaaa"})
    assert not left.exists()
    hold.release()
    assert not list(tmp_path.iterdir())
    assert store.held() == (set(), set())


def test_a_hold_that_cannot_be_written_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the folders would be worse."""
    monkeypatch.setattr(os, "write", lambda _fd, text: len(text) - 1)
    with pytest.raises(OSError, match="No space left"):
        Store(tmp_path).hold("aaaaaa", ["t/run=1"])
    assert not list(tmp_path.iterdir())


def test_where_it_cannot_be_read_what_is_held_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's, for one: nothing is removed then."""
    path = tmp_path / ".held-aaaaaa"
    path.write_text("[")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "open", refused)
    assert Store(tmp_path).held() is None
    assert path.exists()
