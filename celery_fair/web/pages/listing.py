"""Long lists: found by name, sorted, and shown a hundred at a time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

__all__ = ["Listing", "listing"]

_SHOWN = 100

T = TypeVar("T")


class Listing(NamedTuple, Generic[T]):
    """A part of a list.

    Attributes:
        rows: of this page.
        found: how many there are that fit what is looked for.
        total: how many there are.
        page, pages: this page's number, from 1 on, and how many there are.
        sort: what they are sorted by; with a minus before it the other way round.
    """

    rows: Sequence[T]
    found: int
    total: int
    page: int
    pages: int
    sort: str
    looked_for: str


def listing(
    every: Sequence[T],
    query: Mapping[str, str],
    name: Callable[[T], str],
    keys: Mapping[str, Callable[[T], Any]],
    sort: str,
) -> Listing[T]:
    """Return what an address asks for with ``q``, ``sort`` and ``page``.

    Arguments:
        keys: what can be sorted by.
        sort: what is, if the address does not say.
    """
    looked_for = query.get("q", "")
    found = [each for each in every if looked_for.lower() in name(each).lower()]
    by = query.get("sort", sort)
    if by.lstrip("-") not in keys:
        by = sort
    found.sort(key=name)
    found.sort(key=keys[by.lstrip("-")], reverse=by.startswith("-"))
    pages = max(1, -(-len(found) // _SHOWN))
    page = min(pages, _number(query.get("page", "")))
    rows = found[(page - 1) * _SHOWN : page * _SHOWN]
    return Listing(rows, len(found), len(every), page, pages, by, looked_for)


def _number(text: str) -> int:
    return max(1, int(text)) if text.isdecimal() and len(text) < 9 else 1
