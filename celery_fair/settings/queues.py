"""The options of a queue, as in ``fair_queues[name]``, and which of them can be changed live."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.settings import values
from celery_fair.settings.table import from_options, table

LIVE_OPTIONS = ("quantum", "target", "rate", "burst", "max_in_flight", "prefetch")
"""Options that can be changed while consuming; the others are the queue's subscription."""


@dataclass(frozen=True)
class QueueOptions:
    """One queue's options, as in ``fair_queues[name]``."""

    quantum: values.Quantum
    """Cost that the queue may be served per round; relative to other queues', its share."""
    prefetch: values.Cap = None
    """The queue's window in messages; without it, the window adapts."""
    level: Annotated[int, values.whole(0)] = field(default=0, metadata={"name": "class"})
    """With the policy `"strict"`, a queue of a higher class goes first."""
    target: values.Wait = None
    """What its messages may wait, such as "95% < 0.5s": in time for it they go before others."""
    importance: Annotated[int, values.whole(0)] = 0
    """Which target is missed last when there is more work than slots: the highest one's."""
    rate: values.Rate = None
    """Starts per second at the most, in the long run: the queue's leash."""
    burst: values.Burst = 1
    """How many may start at once, under a `rate`."""
    scope: Annotated[str, values.choice("worker", "cluster")] = "worker"
    """Whether each worker has a leash of its own, or all share one."""
    max_in_flight: values.Cap = None
    """Tasks of the queue that one worker runs at once."""
    exclusive: values.Flag = False
    """Whether no second worker may consume the queue."""
    fetch: Annotated[str, values.choice("push", "pull")] = "push"
    """Whether the broker pushes messages ahead of their turn, or each is asked for in its turn."""


@values.by_queue
def given_options(where: str, _: str, options: Any) -> dict[str, Any]:
    """Return the fields of `QueueOptions` that a queue is given, each checked by itself."""
    return from_options(QueueOptions, where, options)


def parse_live_options(queue: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `QueueOptions` that are to change while consuming, checked.

    Raises:
        celery.exceptions.ImproperlyConfigured: for an unknown option or a value out of bounds, for
            no options at all, and for one that cannot be changed while consuming.
    """
    allowed = ", ".join(LIVE_OPTIONS)
    if not options:
        raise ImproperlyConfigured(f"set {queue}: nothing to set; there are: {allowed}")
    for option in options:
        if option in table(QueueOptions) and option not in LIVE_OPTIONS:
            raise ImproperlyConfigured(
                f"set {queue}: {option!r} cannot be changed while consuming; these can: {allowed}"
            )
    return from_options(QueueOptions, f"fair_queues[{queue!r}]", options)


_NEEDS = (
    ("burst", "rate", "10/s"),
    ("scope", "rate", "10/s"),
    ("importance", "target", "95% < 0.5s"),
)
"""Options, what each has a meaning beside, and such a one."""


def refuse_together(where: str, options: QueueOptions, given: Mapping[str, Any]) -> None:
    """Refuse those of the given options that have no meaning beside the others.

    Raises:
        celery.exceptions.ImproperlyConfigured: naming the option, and what it needs.
    """
    for option, needed, such_as in _NEEDS:
        is_given = given.get(option, getattr(QueueOptions, option)) != getattr(QueueOptions, option)
        if is_given and getattr(options, needed) is None:
            raise ImproperlyConfigured(
                f"{where}: {option!r} needs a {needed!r}, such as {such_as!r}"
            )
    for option in ("prefetch", "exclusive"):
        if options.fetch == "pull" and given.get(option):
            raise ImproperlyConfigured(
                f"{where}: {option!r} belongs to a subscription, and there is none with 'fetch':"
                " 'pull' or in fair_keys, where messages are asked for when a slot is free; leave"
                " one of the two out"
            )
