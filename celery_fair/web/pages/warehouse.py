"""Past hours and days, as the tables of a warehouse have them."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from operator import itemgetter
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from celery_fair.operate.text import escaped, parsed_time
from celery_fair.web.pages.listing import listing
from celery_fair.web.past import FIGURES, QueuePast, Span
from celery_fair.web.past_shares import KEPT
from celery_fair.web.site import Site

__all__ = ["warehouse_lines", "warehouse_page", "warehouse_part"]

SPANS = {"1h": "hour", "6h": "6 hours", "1d": "day", "7d": "week", "30d": "30 days"}
"""As an address names them."""

_SECONDS = {"h": 3600.0, "d": 86400.0}
_FIRST = "1d"
_DRAWN = 8

_Row = tuple[str, QueuePast]

_KEYS: dict[str, Callable[[_Row], Any]] = {
    "name": itemgetter(0),
    "share": lambda row: row[1].share or 0.0,
    "target": lambda row: row[1].target or 0.0,
    "started": lambda row: row[1].started,
    "median": lambda row: row[1].median or 0.0,
    "p95": lambda row: row[1].p95 or 0.0,
    "off": lambda row: sum(n for name, n in row[1].verdicts.items() if name not in KEPT),
}

_WHY = {
    "UNFAIR": "off by more than the scheduler may owe",
    "STARVED_BY_BROKER": "its worker had none of its messages, while the broker had some",
    "HELD": "its own leash or cap held it back",
}


class _Asked(NamedTuple):
    """What an address asks for.

    Attributes:
        name: the length's.
        until: as a field for a time has it, in UTC; empty for the last that is there.
        wrong: what is wrong with the address.
    """

    name: str
    span: Span
    until: str = ""
    wrong: str = ""


def _asked(query: Mapping[str, str]) -> _Asked:
    name = query.get("span", _FIRST)
    name = name if name in SPANS else _FIRST
    length = int(name[:-1]) * _SECONDS[name[-1]]
    text = query.get("until", "")
    if not text:
        return _Asked(name, Span(length))
    try:
        until = parsed_time(text)
        _ = until - timedelta(seconds=length)  # when it begins is to be a time, too
    except (ValueError, OverflowError):
        told = f"{text} is no time such as 2026-01-31T12:00, and is left out."
        return _Asked(name, Span(length), wrong=told)
    shown = until.replace(tzinfo=None).isoformat(timespec="minutes")
    return _Asked(name, Span(length, until.timestamp()), shown)


def warehouse_part(site: Site, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what fills in the table."""
    if site.warehouse is None:
        return {"past": None}
    asked = _asked(query)
    past = site.warehouse.look(asked.span)
    listed = listing(list(past.queues.items()), query, itemgetter(0), _KEYS, "-share")
    chosen = query.get("queue", "")
    return {
        "past": past,
        "listing": listed,
        "folder": site.warehouse.folder,
        "span": asked.name,
        "spans": SPANS,
        "until": asked.until,
        "wrong": asked.wrong,
        "chosen": chosen,
        "worst": past.queues[chosen].worst if chosen in past.queues else None,
        "why": _WHY,
    }


def warehouse_page(site: Site, request: Request) -> Response:
    """Show what queues did in a time."""
    return site.page(request, "warehouse.html", **warehouse_part(site, dict(request.query_params)))


def warehouse_lines(site: Site, query: Mapping[str, str], before: Any) -> tuple[Any, Any]:
    """Return the lines of those that got most, of those that are looked for, or of the one chosen.

    Arguments:
        before: what was returned the last time, first; if that is so still, there are none.
    """
    if site.warehouse is None:
        return None, None
    past = site.warehouse.look(_asked(query).span)
    looked_for, chosen = query.get("q", "").lower(), query.get("queue", "")
    names = [name for name in past.queues if looked_for in name.lower()][:_DRAWN]
    names = [chosen] if chosen in past.queues else sorted(names)
    state = past.version, past.folders, past.since, names
    if state == before:
        return state, None
    lines = [past.queues[name].lines[figure] for name in names for figure in FIGURES]
    told = {"times": past.times, "lines": lines, "figures": FIGURES, "whole": True, "utc": True}
    return state, told | {"names": [*map(escaped, names)]}
