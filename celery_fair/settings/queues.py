"""The options of a queue, as in ``fair_queues[name]``, and which of them can be changed live."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.settings.table import from_options, table
from celery_fair.settings.values import Burst, Cap, Flag, Quantum, Rate, Wait, choice, whole

LIVE_OPTIONS = ("quantum", "target", "rate", "burst", "max_in_flight", "prefetch")
"""Options that can be changed while consuming; the others are the queue's subscription."""


@dataclass(frozen=True)
class QueueOptions:
    """One queue's options, as in ``fair_queues[name]``."""

    quantum: Quantum
    """Cost that the queue may be served per round; relative to other queues', its share."""
    prefetch: Cap = None
    """The queue's window in messages; without it, the window adapts."""
    level: Annotated[int, partial(whole, least=0)] = field(default=0, metadata={"name": "class"})
    """With the policy `"strict"`, a queue of a higher class goes first."""
    target: Wait = None
    """What its messages may wait, such as "95% < 0.5s": in time for it they go before others."""
    importance: Annotated[int, partial(whole, least=0)] = 0
    """Which target is missed last when there is more work than slots: the highest one's."""
    rate: Rate = None
    """Starts per second at the most, in the long run: the queue's leash."""
    burst: Burst = 1
    """How many may start at once, under a `rate`."""
    scope: Annotated[str, choice("worker", "cluster")] = "worker"
    """Whether each worker has a leash of its own, or all share one."""
    max_in_flight: Cap = None
    """Tasks of the queue that one worker runs at once."""
    exclusive: Flag = False
    """Whether no second worker may consume the queue."""
    fetch: Annotated[str, choice("push", "pull")] = "push"
    """Whether the broker pushes messages ahead of their turn, or each is asked for in its turn."""


def parse_options(queue: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `QueueOptions` that options mean, each value checked by itself.

    Raises:
        celery.exceptions.ImproperlyConfigured: for an unknown option or a value out of bounds.
    """
    where = f"fair_queues[{queue!r}]"
    for option in options:
        if option not in table(QueueOptions):
            raise ImproperlyConfigured(
                f"{where}: unknown option {option!r}; there are:"
                f" {', '.join(sorted(table(QueueOptions)))}"
            )
    return from_options(QueueOptions, where, options)


def parse_live_options(queue: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `QueueOptions` that are to change while consuming, checked.

    Raises:
        celery.exceptions.ImproperlyConfigured: as `parse_options`; also for no options at all, and
            for one that cannot be changed while consuming.
    """
    allowed = ", ".join(LIVE_OPTIONS)
    if not options:
        raise ImproperlyConfigured(f"set {queue}: nothing to set; there are: {allowed}")
    for option in options:
        if option in table(QueueOptions) and option not in LIVE_OPTIONS:
            raise ImproperlyConfigured(
                f"set {queue}: {option!r} cannot be changed while consuming; these can: {allowed}"
            )
    return parse_options(queue, options)


def options_of(name: str, options: Mapping[str, Any], default_quantum: float) -> QueueOptions:
    """Return a queue's options, checked one by one and together.

    Raises:
        celery.exceptions.ImproperlyConfigured: naming the queue, the option, and what is allowed.
    """
    where = f"fair_queues[{name!r}]"
    parsed = parse_options(name, options)
    if "burst" in parsed and parsed.get("rate") is None:
        raise ImproperlyConfigured(f"{where}: 'burst' needs a 'rate', such as '10/s'")
    if parsed.get("scope") == "cluster" and parsed.get("rate") is None:
        raise ImproperlyConfigured(f"{where}: 'scope' needs a 'rate', such as '10/s'")
    if parsed.get("importance") and parsed.get("target") is None:
        raise ImproperlyConfigured(f"{where}: 'importance' needs a 'target', such as '95% < 0.5s'")
    if parsed.get("fetch") == "pull":
        for option in ("prefetch", "exclusive"):
            if parsed.get(option):
                raise ImproperlyConfigured(
                    f"{where}: {option!r} belongs to a subscription, and with 'fetch': 'pull' there"
                    " is none; leave one of the two out"
                )
    return QueueOptions(**{"quantum": default_quantum, **parsed})
