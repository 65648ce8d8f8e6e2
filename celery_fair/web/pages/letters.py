"""The dead letters: found, looked at, replayed, purged."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from celery_fair.dead_letters.letter import Letter
from celery_fair.operate.dead_letters import Filters, Found, find, shown
from celery_fair.operate.errors import OperateError
from celery_fair.operate.text import parsed_time
from celery_fair.web.forms import Form
from celery_fair.web.orders import KINDS, BusyError, Order
from celery_fair.web.site import Site

__all__ = ["begin", "letter_page", "letters_page", "order_part", "plan", "stop"]

_SHOWN = 200
_SCANNED = 50_000
"""Letters that are looked at for one page, at the most."""

_BODY = 20_000
"""Characters of a body."""


def letters_page(site: Site, request: Request) -> Response:
    """Show the dead letters that are looked for, the oldest first, and how many of each kind."""
    query = dict(request.query_params)
    found, waiting, trouble = Found(), 0, ""
    try:
        filters = _filters(query)
        with site.orders.letters() as queue:
            waiting = queue.count()
            found = find(queue, filters, _SHOWN, _SCANNED)
    except (BusyError, OperateError, ValueError) as exc:
        trouble = str(exc)
    return site.page(
        request,
        "dead_letters.html",
        counts={name: _largest(each) for name, each in found.counts.items()},
        found=found.count,
        letters=found.letters,
        scanned=found.looked_at,
        waiting=max(waiting, found.looked_at),
        may_have_started=found.may_have_started,
        provable=site.orders.provable,
        orders=site.orders.recent(),
        trouble=trouble,
    )


def _largest(counts: Counter[str]) -> list[tuple[str, int]]:
    return [(value or "–", count) for value, count in counts.most_common(8)]


def letter_page(site: Site, request: Request) -> Response:
    """Show all of a letter."""
    name = request.query_params.get("id", "")
    try:
        with site.orders.letters() as queue:
            found = [_whole(*each) for each in shown(queue, name, _BODY)]
    except (BusyError, OperateError) as exc:
        raise HTTPException(503, str(exc)) from None
    if not found:
        raise HTTPException(404, f"There is no dead letter {name!r} any more.")
    return site.page(request, "letter.html", found=found)


def plan(site: Site, request: Request, form: Form) -> Response:
    """Show what an order would do."""
    kind, why = form.text("kind"), form.text("why")
    if kind not in KINDS:
        raise HTTPException(400, f"{kind!r} is none of {', '.join(KINDS)}.")
    if kind == "replay-may-have-started" and not why:
        raise HTTPException(
            400,
            "Letters that may have started run a second time if they are replayed: say why that is"
            " right.",
        )
    chosen = frozenset(form.all("digest"))
    try:
        filters = _filters(
            {name: form.exact(name) for name in ("reason", "task", "queue", "since", "before")}
        )

        def wanted(letter: Letter) -> bool:
            return letter.digest in chosen if chosen else filters.fit(letter)

        order = site.orders.plan(request.state.visitor.name, kind, why, wanted)
    except (BusyError, ValueError) as exc:
        raise HTTPException(409, str(exc)) from None
    except OperateError as exc:
        raise HTTPException(503, str(exc)) from None
    return site.page(request, "order.html", order=order)


def begin(site: Site, request: Request, form: Form) -> Response:
    """Do what was planned, as it was shown."""
    order = _order(site, form.text("id"))
    visitor = request.state.visitor
    if order.who != visitor.name or not order.begin():
        raise HTTPException(409, "This order was begun already, or somebody else has planned it.")
    details = {"letters": len(order.digests), "why": order.why, "digests": order.digests[:1000]}
    try:
        action = site.log.begin(visitor.name, order.kind, "dead letters", details)
    except OSError as exc:
        order.put_off()
        raise HTTPException(500, f"The log of actions cannot be written: {exc}") from None
    site.orders.start(order, lambda done: site.log.end(action, done.result()))
    root = request.scope.get("root_path", "")
    return RedirectResponse(f"{root}/order?id={order.id}", 303)


def stop(site: Site, request: Request, form: Form) -> Response:
    """Stop an order after the letter that it is at."""
    order = _order(site, form.text("id"))
    order.stop.set()
    root = request.scope.get("root_path", "")
    return RedirectResponse(f"{root}/order?id={order.id}", 303)


def order_part(site: Site, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what fills in the progress of an order.

    Raises:
        HTTPException: there is no such order.
    """
    return {"order": _order(site, query.get("id", ""))}


def _order(site: Site, id_: str) -> Order:
    order = site.orders.get(id_)
    if order is None:
        raise HTTPException(404, "There is no such order any more: look at the dead letters again.")
    return order


def _filters(query: Mapping[str, str]) -> Filters:
    """Return what is looked for.

    Raises:
        ValueError: a time is none.
    """
    some = {name: (query[name],) if query.get(name) else () for name in ("reason", "task", "queue")}
    return Filters(
        some["reason"],
        some["task"],
        some["queue"],
        _time(query.get("since", "")),
        _time(query.get("before", "")),
    )


def _time(text: str) -> datetime | None:
    return parsed_time(text.strip()) if text.strip() else None


def _whole(letter: Letter, all_of_it: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **all_of_it,
        "letter": letter,
        "retries": letter.headers.get("retries"),
        "worker": letter.text("x-fair-worker"),
        "detail": letter.text("x-fair-detail"),
    }
