"""What a worker says of itself at its start: that it is fair, and how."""

from collections.abc import Iterator
from typing import Any

from celery_fair.routing.declared import collisions
from celery_fair.settings import Settings
from celery_fair.worker.releases import NEWEST, untried

_NAMED = 10
"""Queues whose quanta are named."""

_Fact = tuple[str, str]


def warnings(app: Any) -> Iterator[str]:
    """Yield what is probably not meant so."""
    for queues, trouble, mend in collisions(app.amqp.queues.values()):
        yield f"The {queues} {trouble}; {mend}"
    for newer in untried():
        yield (
            f"{newer} is newer than what celery-fair was tried with"
            f" ({NEWEST[newer.partition(' ')[0]]}): try it before you rely on it"
        )


def line(app: Any, settings: Settings) -> str:
    """Return all of it in one line, for the log."""
    return "Fair: " + "; ".join(f"{name} {said}" for name, said in _facts(app, settings))


def banner(app: Any, settings: Settings) -> str:
    """Return it as a part of the banner that Celery prints when a worker starts."""
    facts = [f"  .> {name + ':':<13} {said}" for name, said in _facts(app, settings)]
    return "\n".join(["", "[fair]", *facts, ""])


def _facts(app: Any, settings: Settings) -> Iterator[_Fact]:
    yield "policy", settings.policy
    yield "queues", _queues(app, settings)
    yield "fast path", _fast_path(settings)
    yield (
        "ledger",
        "none" if settings.ledger is None else f"{settings.ledger.partition('://')[0]}://…",
    )
    yield "dead letters", settings.dead_letters
    yield "event log", settings.event_log or "none"


def _fast_path(settings: Settings) -> str:
    if not settings.fast_path:
        return "off (fair_fast_path = False)"
    newer = ", ".join(untried())
    return f"off ({newer} is newer than what it was tried with)" if newer else "on"


def _queues(app: Any, settings: Settings) -> str:
    names = sorted(app.amqp.queues.consume_from)
    named = [_queue(name, settings) for name in names[:_NAMED]]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join(named + more)


def _queue(name: str, settings: Settings) -> str:
    by_key = " by key" if name in settings.keys else ""
    options = settings.queue(name)
    target = "" if options.target is None else f" ({options.target})"
    return f"{name} {options.quantum:g}{by_key}{target}"
