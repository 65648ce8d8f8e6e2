"""All queues, one queue, all workers, one worker."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import itemgetter
from time import monotonic
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from celery_fair.operate.errors import NoAnswerError
from celery_fair.operate.text import escaped
from celery_fair.operate.workers import Workers
from celery_fair.web.collector import FIGURES
from celery_fair.web.looks import Looks
from celery_fair.web.pages.listing import listing
from celery_fair.web.sentences import sentences
from celery_fair.web.site import Site, message_of

__all__ = [
    "Explanations",
    "queue_lines",
    "queue_part",
    "queues_page",
    "queues_part",
    "worker_part",
    "workers_part",
]

_UNUSED = 30.0
"""Seconds for which a connection that nobody asks by is trusted."""

_DRAWN = 8
"""Lines of queues that can be told apart."""

_KEYS = {
    "name": lambda queue: queue.name,
    "quantum": lambda queue: max(queue.quanta),
    "target": lambda queue: queue.target,
    "share": lambda queue: queue.share,
    "starts": lambda queue: queue.per_second or 0,
    "wait": lambda queue: queue.p95 or 0,
    "backlog": lambda queue: queue.backlog,
    "oldest": lambda queue: queue.oldest,
    "running": lambda queue: queue.in_flight,
    "held": lambda queue: len(queue.held),
}


_WORKER_KEYS = {
    "name": lambda worker: worker.name,
    "queues": lambda worker: worker.queues,
    "per_second": lambda worker: worker.per_second or 0,
    "buffered": lambda worker: worker.buffered,
    "in_flight": lambda worker: worker.in_flight,
    "held": lambda worker: worker.held,
}

_ROW_KEYS: dict[str, Callable[[tuple[str, Mapping[str, Any]]], Any]] = {
    "name": lambda row: (-row[1]["class"], row[0]),
    "target": lambda row: row[1]["target_share"],
    "share": lambda row: row[1]["share"],
    "buffered": lambda row: row[1]["buffered"],
    "in_flight": lambda row: row[1]["in_flight"],
    "served": lambda row: row[1]["served"],
    "held": lambda row: row[1]["held"] or "",
}


def queues_part(site: Site, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what fills in the table of all queues."""
    snapshot = site.collector.look()
    queues = list(snapshot.queues.values())
    listed = listing(queues, query, lambda queue: queue.name, _KEYS, "name")
    with_waits = any(queue.waits for queue in queues)
    return {"snapshot": snapshot, "listing": listed, "with_waits": with_waits}


def queue_lines(site: Site, query: Mapping[str, str], before: Any) -> tuple[Any, Any]:
    """Return whose lines are drawn, and those: their ends, if that is what was drawn before."""
    names, figures = _drawn(site, query)
    whole = names != before
    told = site.collector.history.lines(names, figures, slice(None if whole else -1, None))
    return names, told | {"names": [*map(escaped, names)], "whole": whole}


def _drawn(site: Site, query: Mapping[str, str]) -> tuple[list[str], tuple[str, ...]]:
    """Return whose lines are drawn on a page, and which of them."""
    if "name" in query:
        return [query["name"]], FIGURES
    snapshot = site.collector.look()
    looked_for = query.get("q", "").lower()
    some = [queue for queue in snapshot.queues.values() if looked_for in queue.name.lower()]
    some.sort(key=lambda queue: (-queue.target, -queue.backlog, queue.name))
    return sorted(queue.name for queue in some[:_DRAWN]), ("share", "target")


def queue_part(
    site: Site, explained: Looks[dict[str, str]], query: Mapping[str, str]
) -> dict[str, Any]:
    """Return what fills in the page of one queue.

    Raises:
        HTTPException: no worker consumes it.
    """
    name, snapshot = query.get("name", ""), site.collector.look()
    queue = snapshot.queues.get(name)
    if queue is None:
        raise HTTPException(404, f"No fair worker that answers consumes a queue {name!r}.")
    at = {worker: rows[name] for worker, rows in snapshot.workers.items() if name in rows}
    return {
        "snapshot": snapshot,
        "queue": queue,
        "why": sentences(queue),
        "explained": explained.of(name),
        "at": at,
    }


class Explanations:
    """Asks the workers why nothing of a queue starts."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._workers: Workers | None = None
        self._asked = 0.0

    def ask(self, queue: str) -> dict[str, str]:
        """Return what each worker says that consumes it, as `fair explain` does."""
        rows = self._site.collector.look().workers
        named = [worker for worker in rows if queue in rows[worker]]
        try:
            answers = self._connected().ask("fair_explain", named=named, queue=queue)
        except NoAnswerError as exc:
            return {"no worker": str(exc)}
        except Exception as exc:  # noqa: BLE001 - of any transport: the page says it
            self._disconnect()
            return {"no worker": message_of(exc)}
        said = {worker: str(answer["text"]) for worker, answer in answers.good.items()}
        return said | dict(answers.errors)

    def _connected(self) -> Workers:
        """Return what asks them; on another connection, if this one was left alone for long."""
        now = monotonic()
        if now - self._asked > _UNUSED:
            self._disconnect()
        self._asked = now
        if self._workers is None:
            self._workers = Workers(self._site.app, (), self._site.timeout)
        return self._workers

    def _disconnect(self) -> None:
        workers, self._workers = self._workers, None
        if workers is not None:
            with suppress(Exception):  # it may be gone
                workers.close()


def queues_page(site: Site, request: Request) -> Response:
    """Show all queues."""
    query = dict(request.query_params)
    return site.page(request, "queues.html", **queues_part(site, query))


def workers_part(site: Site, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what fills in the table of workers."""
    snapshot = site.collector.look()
    sums = list(snapshot.sums.values())
    listed = listing(sums, query, lambda worker: worker.name, _WORKER_KEYS, "name")
    return {"snapshot": snapshot, "listing": listed}


def worker_part(site: Site, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what fills in the page of one worker.

    Raises:
        HTTPException: it does not answer.
    """
    name, snapshot = query.get("name", ""), site.collector.look()
    if name not in snapshot.workers:
        raise HTTPException(404, f"No fair worker {name!r} answers.")
    rows = list(snapshot.workers[name].items())
    listed = listing(rows, query, itemgetter(0), _ROW_KEYS, "name")
    return {"snapshot": snapshot, "worker": snapshot.sums[name], "listing": listed}
