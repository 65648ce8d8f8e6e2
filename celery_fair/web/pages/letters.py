"""The dead letters: found, looked at, replayed, purged."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from celery_fair.dead_letters.letter import Letter
from celery_fair.operate.dead_letters import Filters, find, shown
from celery_fair.operate.errors import InvalidRequestError
from celery_fair.operate.letter_body import plain, readable
from celery_fair.operate.text import parsed_time
from celery_fair.web.forms import Form
from celery_fair.web.orders import KINDS, Order
from celery_fair.web.site import Site, redirect

_SHOWN = 200
_SCANNED = 50_000
"""Letters that are looked at for one page, at the most."""


class LetterPages:
    """What fills in pages of dead letters, and what their forms do."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def letters(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Fill in those that are looked for, the oldest first, and how many of each kind."""
        filters = _filters(query)
        with self._site.orders.letters() as queue:
            waiting = queue.count()
            found = find(queue, filters, _SHOWN, _SCANNED)
        return {
            "letters": found.letters,
            "orders": self._site.orders.recent(),
            "counts": {name: each.most_common(8) for name, each in found.counts.items()},
            "found": found.count,
            "scanned": found.looked_at,
            "waiting": max(waiting, found.looked_at),
            "may_have_started": found.may_have_started,
        }

    def letter(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Fill in all of a letter.

        Raises:
            HTTPException: it is not there.
        """
        name = query.get("id", "")
        with self._site.orders.letters() as queue:
            found = [letter for letter, _ in shown(queue, name, 1)]
        if not found:
            raise HTTPException(404, f"There is no dead letter {name!r} any more.")
        return {"found": found, "plain": plain, "readable": readable}

    def plan(self, request: Request, form: Form) -> Response:
        """Show what an order would do."""
        kind, why = form.get("kind", ""), form.get("why", "").strip()
        if kind not in KINDS:
            raise HTTPException(400, f"{kind!r} is none of {', '.join(KINDS)}.")
        if kind == "replay-may-have-started" and not why:
            raise HTTPException(
                400,
                "Letters that may have started run a second time if they are replayed: say why that"
                " is right.",
            )
        chosen, filters = frozenset(form.getlist("digest")), _filters(form)

        def wanted(letter: Letter) -> bool:
            return letter.digest in chosen if chosen else filters.fit(letter)

        order = self._site.orders.plan(request.state.visitor.name, kind, why, wanted)
        return self._site.page(request, "order.html", order=order)

    def begin(self, request: Request, form: Form) -> Response:
        """Do what was planned, as it was shown."""
        order = self._order(form)
        if order.who != request.state.visitor.name:
            raise InvalidRequestError("Somebody else has planned this order.")
        self._site.orders.start(order)
        return redirect(request, f"order?id={order.id}")

    def stop(self, request: Request, form: Form) -> Response:
        """Stop an order after the letter that it is at."""
        order = self._order(form)
        order.stop.set()
        return redirect(request, f"order?id={order.id}")

    def order(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Fill in the progress of an order.

        Raises:
            HTTPException: there is no such order.
        """
        return {"order": self._order(query)}

    def _order(self, asked: Mapping[str, str]) -> Order:
        order = self._site.orders.get(asked.get("id", ""))
        if order is None:
            raise HTTPException(404, "There is no such order any more: look at the letters again.")
        return order


def _filters(asked: Mapping[str, str]) -> Filters:
    reason, task, queue = (
        tuple(filter(None, [asked.get(name)])) for name in ("reason", "task", "queue")
    )
    since, before = (_time(asked.get(name, "").strip()) for name in ("since", "before"))
    return Filters(reason, task, queue, since, before)


def _time(text: str) -> datetime | None:
    try:
        return parsed_time(text) if text else None
    except ValueError as exc:
        raise HTTPException(400, str(exc)) from None
