"""Keys as they are written, and read again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.keys.fair_key import LONGEST, read_key, written_key


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("acme", "acme"),
        (12, "12"),
        (-3, "-3"),
        ("é".encode(), "é"),
        (("acme", "user-7"), "acme/user-7"),
        (["acme", 7], "acme/7"),
        ("a/b", "a%2Fb"),
        (("50%", "a/b"), "50%25/a%2Fb"),
    ],
)
def test_written(key: Any, written: str) -> None:
    assert written_key(key) == written


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (None, TypeError),
        (True, TypeError),
        (1.5, TypeError),
        ([1, 2, 3], TypeError),
        (("a", None), TypeError),
        ({"a": 1}, TypeError),
        ("", ValueError),
        (("a", ""), ValueError),
        (b"\xff", ValueError),
        ("\ud800", ValueError),
        ("x" * (LONGEST + 1), ValueError),
        (("x" * LONGEST, "y"), ValueError),
        ("é" * LONGEST, ValueError),
    ],
)
def test_what_is_no_key(key: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="key"):
        written_key(key)


NAMES = st.text("/%2F5aé😀 \0\ud800", min_size=1, max_size=12)


@given(tenant=NAMES, part=NAMES)
def test_no_name_is_taken_for_a_pair(tenant: str, part: str) -> None:
    try:
        pair, name = written_key((tenant, part)), written_key(tenant)
    except ValueError:
        return
    assert read_key(name) == (name, "")
    assert read_key(pair) == (name, written_key(part))


@pytest.mark.parametrize(
    ("header", "read"),
    [
        ("acme", ("acme", "")),
        ("a/b/c", ("a", "b/c")),
        ("/b", ("", "b")),
        (7, ("7", "")),
        (10**15, ("", "")),
        (True, ("", "")),
        (1.5, ("", "")),
        (None, ("", "")),
        ([], ("", "")),
        ({"a": 1}, ("", "")),
    ],
)
def test_read(header: Any, read: tuple[str, str]) -> None:
    assert read_key(header) == read


def test_what_is_no_text_stands_for_itself() -> None:
    tenant, part = read_key("\ud800/b")
    assert (len(tenant), part) == (40, "")
    assert read_key("\ud801/b") != (tenant, part)


def test_what_is_too_long_stands_for_itself() -> None:
    tenant, part = read_key("x/" * 40_000)
    assert (len(tenant), part) == (40, "")
    assert read_key("x/" * 40_000) == (tenant, part) != read_key("x/" * 40_001)
