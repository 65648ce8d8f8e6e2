"""The keys (tenants) of the queues that are shared by them."""

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from celery_fair.operate.errors import OperateError
from celery_fair.operate.keys import Listing, opened, watched, why
from celery_fair.web.looks import Looks
from celery_fair.web.site import Site, message_of

__all__ = ["KeyWatch", "key_page", "keys_page", "keys_part"]

_SHOWN = 200


class KeyWatch:
    """Looks at the keys of queues again and again."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._watched: dict[str, Iterator[Listing]] = {}

    def ask(self, queue: str) -> dict[str, Any]:
        """Return what `fair keys` has found, or the trouble with that."""
        try:
            if queue not in self._watched:
                self._watched[queue] = watched(self._site.app, queue, _SHOWN)
            return next(self._watched[queue]).as_dict()
        except Exception as exc:  # noqa: BLE001 - of any transport: the page says it
            self._watched.pop(queue, None)
            return {"trouble": message_of(exc)}


def keys_part(site: Site, looks: Looks[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Return what fills in the table of keys."""
    queues = sorted(site.settings.keys)
    queue = query.get("queue") or (queues[0] if queues else "")
    if queue not in queues:
        return {"queues": queues, "queue": "", "found": {}}
    return {"queues": queues, "queue": queue, "found": looks.of(queue)}


def keys_page(site: Site, looks: Looks[dict[str, Any]], request: Request) -> Response:
    """Show the keys of a queue that have messages waiting."""
    return site.page(request, "keys.html", **keys_part(site, looks, dict(request.query_params)))


def key_page(site: Site, request: Request) -> Response:
    """Show one key, and why its messages do not start."""
    queue, key = request.query_params.get("queue", ""), request.query_params.get("key", "")
    context: dict[str, Any] = {"queue": queue, "key": key, "found": None, "why": "", "trouble": ""}
    try:
        with opened(site.app, queue) as keys:
            found, _ = keys.backlog(key)
        context |= {"found": found, "why": why(queue, found)}
    except OperateError as exc:
        context["trouble"] = str(exc)
    return site.page(request, "key.html", **context)
