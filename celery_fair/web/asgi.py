"""The application."""

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from celery_fair.web.forms import changing
from celery_fair.web.guard import Guard
from celery_fair.web.key_change import KeyChange
from celery_fair.web.looks import Looks
from celery_fair.web.pages import letters, queues, states
from celery_fair.web.pages.changing import change
from celery_fair.web.pages.history import history_lines, history_page, history_part
from celery_fair.web.pages.keys import KeyWatch, key_page, keys_page, keys_part
from celery_fair.web.pages.live import Lines, Live, Part
from celery_fair.web.queue_change import QueueChange
from celery_fair.web.site import Site
from celery_fair.web.visitors import Visitors

__all__ = ["application"]


def application(site: Site, visitors: Visitors, hosts: Collection[str]) -> Starlette:
    """Return the ASGI application.

    Arguments:
        hosts: as `Guard`.
    """
    keys, explained = Looks(KeyWatch(site).ask), Looks(queues.Explanations(site).ask)
    parts: dict[str, tuple[Part, str]] = {
        "queues": (partial(queues.queues_part, site), "parts/queues.html"),
        "queue": (partial(queues.queue_part, site, explained), "parts/queue.html"),
        "workers": (partial(queues.workers_part, site), "parts/workers.html"),
        "worker": (partial(queues.worker_part, site), "parts/worker.html"),
        "history": (partial(history_part, site), "parts/history.html"),
        "keys": (partial(keys_part, site, keys), "parts/keys.html"),
        "order": (partial(letters.order_part, site), "parts/order.html"),
        "actions": (partial(states.actions_part, site), "parts/actions.html"),
    }

    queue_lines = partial(queues.queue_lines, site)
    lines: dict[str, Lines] = {
        "queues": queue_lines,
        "queue": queue_lines,
        "history": partial(history_lines, site),
    }

    def part_page(name: str) -> Any:
        fill, _ = parts[name]

        def handle(request: Request) -> Response:
            return site.page(request, f"{name}.html", **fill(dict(request.query_params)))

        return handle

    def shown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return site.page(
            request, "error.html", error.status_code, code=error.status_code, text=error.detail
        )

    def to_queues(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}/queues")

    whole = ("queue", "workers", "worker", "order", "actions")
    see = [
        Route("/", to_queues),
        Route("/queues", partial(queues.queues_page, site)),
        *(Route(f"/{name}", part_page(name)) for name in whole),
        Route("/history", partial(history_page, site)),
        Route("/keys", partial(keys_page, site, keys)),
        Route("/key", partial(key_page, site)),
        Route("/dead-letters", partial(letters.letters_page, site)),
        Route("/dead-letter", partial(letters.letter_page, site)),
        Route("/partitions", partial(states.partitions_page, site)),
        Route("/doctor", partial(states.doctor_page, site)),
        Route("/live", Live(site, parts, lines).respond),
        Mount("/static", _Static(directory=Path(__file__).parent / "static")),
    ]
    act = {
        "/queue": partial(change, site, kind=QueueChange),
        "/key": partial(change, site, kind=KeyChange),
        "/dead-letters": partial(letters.plan, site),
        "/order": partial(letters.begin, site),
        "/order/stop": partial(letters.stop, site),
        "/actions/undo": partial(states.undo, site),
    }
    routes = [
        *(Route(path, changing(site.tokens, each), methods=["POST"]) for path, each in act.items()),
        *see,
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, visitors=visitors, hosts=hosts)],
        exception_handlers={HTTPException: shown},
    )


class _Static(StaticFiles):
    """Files of the package, which a browser may keep for an hour."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["cache-control"] = "private, max-age=3600"
        return response
