"""Long lists: found by name, sorted, and shown a hundred at a time."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

_SHOWN = 100

_DRAWN = 8
"""Lines of queues that can be told apart."""


class Listing(NamedTuple):
    """A part of a list.

    Attributes:
        rows: of this page.
        found: how many there are that fit what is looked for.
        total: how many there are.
        page, pages: this page's number, from 1 on, and how many there are.
        sort: what they are sorted by; with a minus before it the other way round.
    """

    rows: Sequence[Any]
    found: int
    total: int
    page: int
    pages: int
    sort: str


def listing(
    every: Collection[Any], query: Mapping[str, str], keys: Collection[str], sort: str
) -> Listing:
    """Return what an address asks for with ``q``, ``sort`` and ``page``.

    Arguments:
        every: rows, which have a name.
        keys: figures that can be sorted by; what is not known comes first.
        sort: what is, if the address does not say.
    """
    found = [row for row in every if _is_looked_for(row["name"], query)]
    by = query.get("sort", sort)
    if by.lstrip("-") not in keys:
        by = sort
    key = itemgetter(by.lstrip("-"))
    found.sort(key=itemgetter("name"))
    found.sort(key=lambda row: (key(row) is not None, key(row)), reverse=by.startswith("-"))
    pages = max(1, -(-len(found) // _SHOWN))
    page = min(pages, _number(query.get("page", "")))
    rows = found[(page - 1) * _SHOWN : page * _SHOWN]
    return Listing(rows, len(found), len(every), page, pages, by)


def drawn(names: Iterable[str], query: Mapping[str, str]) -> list[str]:
    """Return whose lines are drawn: the first of those that are looked for, in their order."""
    return sorted(islice((name for name in names if _is_looked_for(name, query)), _DRAWN))


def _is_looked_for(name: str, query: Mapping[str, str]) -> bool:
    return query.get("q", "").lower() in name.lower()


def _number(text: str) -> int:
    return max(1, int(text)) if text.isdecimal() and len(text) < 9 else 1
