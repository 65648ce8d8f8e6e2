"""The options of a queue, as in ``fair_queues[name]``, and which of them can be changed live."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.settings.values import burst, count, fetch, flag, level, quantum, rate, scope

__all__ = ["LIVE_OPTIONS", "QueueOptions", "options_of", "parse_live_options", "parse_option"]

LIVE_OPTIONS = ("quantum", "rate", "burst", "max_in_flight", "prefetch")
"""Options that can be changed while consuming; the others are the queue's subscription."""


@dataclass(frozen=True)
class QueueOptions:
    """One queue's options, as in ``fair_queues[name]``.

    Attributes:
        quantum: cost served per round, above zero; the queue's share is its quantum by the sum of
            the quanta of all backlogged queues (of its class).
        prefetch: the queue's window in messages; None lets it adapt.
        level: ``"class"``: under ``fair_policy = "strict"``, a queue of a higher class goes first.
        rate: starts per second at the most, in the long run; None for no leash.
        burst: starts at once at the most, under a rate.
        scope: whether each worker has a leash of its own, or all share one ("cluster").
        max_in_flight: tasks of the queue that one worker runs at once; None for no cap.
        exclusive: whether no second worker may consume the queue.
        fetch: whether the broker pushes messages ahead of their turn, or each is asked for ("pull")
            when a slot is free for it.
    """

    quantum: float
    prefetch: int | None = None
    level: int = field(default=0, metadata={"name": "class"})
    rate: float | None = None
    burst: int = 1
    scope: str = "worker"
    max_in_flight: int | None = None
    exclusive: bool = False
    fetch: str = "push"


_OPTIONS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "quantum": ("quantum", quantum),
    "prefetch": ("prefetch", count),
    "class": ("level", level),
    "rate": ("rate", rate),
    "burst": ("burst", burst),
    "scope": ("scope", scope),
    "max_in_flight": ("max_in_flight", count),
    "exclusive": ("exclusive", flag),
    "fetch": ("fetch", fetch),
}
assert {name for name, _ in _OPTIONS.values()} == {f.name for f in fields(QueueOptions)}


def parse_option(queue: str, option: str, value: Any) -> tuple[str, Any]:
    """Return the field of `QueueOptions` that an option's name means, and its checked value.

    Raises:
        celery.exceptions.ImproperlyConfigured: for an unknown option or a value out of bounds.
    """
    where = f"fair_queues[{queue!r}]"
    if option not in _OPTIONS:
        raise ImproperlyConfigured(
            f"{where}: unknown option {option!r}; there are: {', '.join(sorted(_OPTIONS))}"
        )
    name, parse = _OPTIONS[option]
    return name, parse(f"{where}[{option!r}]", value)


def parse_live_options(queue: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `QueueOptions` that are to change while consuming, checked.

    Raises:
        celery.exceptions.ImproperlyConfigured: as `parse_option`; also for no options at all, and
            for one that cannot be changed while consuming.
    """
    allowed = ", ".join(LIVE_OPTIONS)
    if not options:
        raise ImproperlyConfigured(f"set {queue}: nothing to set; there are: {allowed}")
    for option in options:
        if option in _OPTIONS and option not in LIVE_OPTIONS:
            raise ImproperlyConfigured(
                f"set {queue}: {option!r} cannot be changed while consuming; these can: {allowed}"
            )
    return dict(parse_option(queue, option, value) for option, value in options.items())


def options_of(name: str, options: Any, default_quantum: float) -> QueueOptions:
    """Return a queue's options, checked one by one and together.

    Raises:
        celery.exceptions.ImproperlyConfigured: naming the queue, the option, and what is allowed.
    """
    where = f"fair_queues[{name!r}]"
    if not isinstance(options, Mapping):
        raise ImproperlyConfigured(
            f"{where} must be a mapping of options such as {{'quantum': 10}}, not {options!r}"
        )
    parsed = dict(parse_option(name, option, value) for option, value in options.items())
    if "burst" in parsed and parsed.get("rate") is None:
        raise ImproperlyConfigured(f"{where}: 'burst' needs a 'rate', such as '10/s'")
    if parsed.get("scope") == "cluster" and parsed.get("rate") is None:
        raise ImproperlyConfigured(f"{where}: 'scope' needs a 'rate', such as '10/s'")
    if parsed.get("fetch") == "pull":
        for option in ("prefetch", "exclusive"):
            if parsed.get(option):
                raise ImproperlyConfigured(
                    f"{where}: {option!r} belongs to a subscription, and with 'fetch': 'pull' there"
                    " is none; leave one of the two out"
                )
    return QueueOptions(**{"quantum": default_quantum, **parsed})
