"""The last hours, as the event log has them."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from celery_fair.operate.text import escaped
from celery_fair.web.log_collector import FIGURES
from celery_fair.web.pages.listing import listing
from celery_fair.web.site import Site

__all__ = ["history_lines", "history_page", "history_part"]

_DRAWN = 8
"""Lines of queues that can be told apart."""

_Row = tuple[str, Mapping[str, float | None]]

_KEYS: dict[str, Callable[[_Row], Any]] = {
    "name": itemgetter(0),
    "share": lambda row: row[1]["share"] or 0.0,
    "starts": lambda row: row[1]["starts"],
    "median": lambda row: row[1]["median"] or 0.0,
    "p95": lambda row: row[1]["p95"] or 0.0,
    "depth": lambda row: row[1]["depth"],
}


def history_part(site: Site, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what fills in the table."""
    if site.record is None:
        return {"hours": None}
    hours = site.record.look()
    listed = listing(list(hours.queues.items()), query, itemgetter(0), _KEYS, "-share")
    return {"hours": hours, "listing": listed, "folder": site.record.folder}


def history_page(site: Site, request: Request) -> Response:
    """Show what queues did in the last hours."""
    return site.page(request, "history.html", **history_part(site, dict(request.query_params)))


def history_lines(site: Site, query: Mapping[str, str], before: Any) -> tuple[Any, Any]:
    """Return the lines of those that were charged most, of those that are looked for.

    Arguments:
        before: what was returned the last time, first; if that is so still, there are none.
    """
    if site.record is None:
        return None, None
    hours, looked_for = site.record.look(), query.get("q", "").lower()
    names = sorted([name for name in hours.queues if looked_for in name.lower()][:_DRAWN])
    state = hours.number, names
    if state == before:
        return state, None
    lines = site.record.history.lines(names, FIGURES, slice(-1))  # the last is not over
    return state, lines | {"names": [*map(escaped, names)], "whole": True}
