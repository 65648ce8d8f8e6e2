"""Remote-control commands of a fair worker: ``fair_status``, ``fair_explain``, ``fair_set``, …

What it is asked, `celery_fair.worker.observe.answers` answers; what it is told is carried out here,
on the thread that owns the channels.

Each answers for its own worker, as plain data. ``celery -A app fair …`` sends them to all workers,
or those named by ``-d``; they can be sent like any of Celery's commands, too. An answer with an
"error" has a "code" where it says what the worker is, not that something is wrong: "not_fair", and
"not_consumed" for a queue that it does not consume.
"""

from collections.abc import Callable
from typing import Any

from celery.exceptions import ImproperlyConfigured
from celery.worker.control import control_command, inspect_command

from celery_fair.worker.process import Parts
from celery_fair.worker.queues.open_feeds import NotConsumedError


def _answer(state: Any, ask: Callable[[Parts], Any]) -> Any:
    """Ask a worker, or tell it something, by its parts."""
    worker = getattr(state.consumer, "fair", None)
    if worker is None:
        return {"error": "this worker has no FairConsumerStep", "code": "not_fair"}
    try:
        return ask(worker.parts)
    except ImproperlyConfigured as exc:
        return {"error": str(exc)}
    except NotConsumedError as exc:
        return {"error": str(exc), "code": "not_consumed"}


@inspect_command(default_timeout=2.0)
def fair_status(state: Any, **_: Any) -> Any:
    """Per queue: quantum, shares, credit, window, what waits, runs and was served."""
    return _answer(state, lambda parts: parts.answers.status())


@inspect_command(args=[("queue", str)], signature="<queue>", default_timeout=2.0)
def fair_explain(state: Any, queue: str, **_: Any) -> Any:
    """Why nothing of a queue starts now."""

    def explain(parts: Parts) -> Any:
        feed = parts.feeds.named(queue)
        if feed is not None and not feed.buffer:
            # Without a free slot nobody has looked at a broker that does not push.
            feed.refill()
            feed.reports.arrived(feed)
        return parts.answers.explain(queue)

    return _answer(state, explain)


@inspect_command(args=[("queue", str)], signature="<queue>", default_timeout=2.0)
def fair_keys(state: Any, queue: str, tenant: str | None = None, **_: Any) -> Any:
    """Whose lanes are of a queue that is shared by key, on RabbitMQ, and who was served."""
    return _answer(state, lambda parts: parts.answers.keys(queue, tenant))


@control_command(args=[("queue", str)], signature="<queue>", default_timeout=2.0)
def fair_set(
    state: Any, queue: str, options: dict[str, Any] | None = None, check: bool = False, **_: Any
) -> Any:
    """Change a queue's options: quantum, target, rate, burst, max_in_flight, prefetch; or check."""
    return _answer(state, lambda parts: _set(parts, queue, options or {}, check))


@control_command(args=[("queue", str)], signature="<queue>", default_timeout=2.0)
def fair_pause(state: Any, queue: str, **_: Any) -> Any:
    """Start nothing of a queue until it is resumed; what runs goes on."""
    return _answer(state, lambda parts: _pause(parts, queue, True))


@control_command(args=[("queue", str)], signature="<queue>", default_timeout=2.0)
def fair_resume(state: Any, queue: str, **_: Any) -> Any:
    """End a queue's pause."""
    return _answer(state, lambda parts: _pause(parts, queue, False))


def _set(parts: Parts, queue: str, options: dict[str, Any], check: bool) -> dict[str, Any]:
    """Change a queue's options, from now on and on every later connection; all of them, or none."""
    parts.feeds.must_have(queue)
    after = parts.settings.changed(queue, options, parts.gates.options(queue))
    if not check:
        parts.change(queue, after)
        parts.set_live(queue)
    said = (f"{name}={'none' if value is None else value}" for name, value in options.items())
    return {"ok": f"{queue}: " + ", ".join(said)}


def _pause(parts: Parts, queue: str, paused: bool) -> dict[str, Any]:
    """Hold a queue back, or end that."""
    parts.feeds.must_have(queue)
    parts.pause(queue, paused)
    parts.set_live(queue)
    return {"ok": f"{queue}: {'paused' if paused else 'resumed'}"}
