"""Queues that are shared fairly by key, as in ``fair_keys``."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.keys.fair_key import read_key, written_key
from celery_fair.settings import values
from celery_fair.settings.table import from_options

Namer = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]
"""``key(task_name, args, kwargs)``: whose a message is; None if that is nobody in particular."""

_LIGHTEST, _HEAVIEST = 1e-6, 1e6
_MOST_LANES = 10_000
_namer = values.or_none(values.function("a callable (task, args, kwargs) -> key"))
_weight = values.number(
    lambda value: _LIGHTEST <= value <= _HEAVIEST,
    f"a number from {_LIGHTEST:g} to {_HEAVIEST:g}",
)


class KeyLimits(NamedTuple):
    """What a key may start, in all workers together."""

    max_in_flight: int | None = None
    """Tasks that run at once; None for any number."""
    rate: float | None = None
    """Starts per second in the long run; None for any number."""
    burst: float = 1
    """How many may start at once, under a rate."""

    def __bool__(self) -> bool:
        return (self.max_in_flight, self.rate) != (None, None)


@dataclass(frozen=True)
class KeyOptions:
    """What one key may have that others have not, as in ``fair_keys[queue]["keys"][key]``."""

    weight: Annotated[float, _weight] = 1.0
    """Its share, relative to those of other keys that have something waiting."""
    max_in_flight: values.Cap = None
    """Its tasks that run at once, in all workers; `None` for any number."""
    rate: values.Rate = None
    """Its starts per second, in all workers; `None` for any number."""
    burst: values.Burst = 1
    """How many of those may start at once."""


def live_key_options(queue: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Check what a key is to have while workers run.

    Raises:
        celery.exceptions.ImproperlyConfigured: naming the option, and what is allowed.
    """
    return from_options(KeyOptions, f"fair_keys[{queue!r}]['keys'][…]", options)


def _keys(where: str, value: Any) -> dict[str, dict[str, Any]]:
    found = {}
    for key, options in values.mapping(where, value).items():
        try:
            tenant, part = read_key(written_key(key))
        except (TypeError, ValueError) as exc:
            raise ImproperlyConfigured(f"{where}: {exc}") from None
        if part:
            raise ImproperlyConfigured(
                f"{where}: {key!r} is a part of the tenant {tenant!r}; parts weigh the same"
            )
        if tenant in found:
            raise ImproperlyConfigured(f"{where}: {key!r} is the tenant {tenant!r} a second time")
        found[tenant] = from_options(KeyOptions, f"{where}[{key!r}]", options)
    return found


@dataclass(frozen=True)
class KeyedQueue:
    """One entry of ``fair_keys``; `name` is the queue's."""

    name: str
    key: Annotated[Namer | None, _namer] = None
    """Returns whose a message is, of its task's name, args and kwargs."""
    weight: Annotated[float, _weight] = 1.0
    """Of every key that has none of its own."""
    max_in_flight: values.Cap = None
    """Tasks of each key that run at once, in all workers, unless it has a cap of its own."""
    rate: values.Rate = None
    """Starts of each key per second, in all workers, unless it has a rate of its own."""
    burst: values.Burst = 1
    """How many of those may start at once."""
    lease: values.Seconds = 30.0
    """Seconds until what a worker ran that is not heard of counts for no cap any more."""
    lanes: Annotated[int, values.whole(1, _MOST_LANES)] = 1024
    """Queues that are added on RabbitMQ for keys with a backlog, at the most."""
    keys: Annotated[Mapping[str, Mapping[str, Any]], _keys] = field(default_factory=dict)
    """Those of `KeyOptions` that single keys have of their own, by key."""

    @property
    def weights(self) -> dict[str, float]:
        """Those that keys have of their own, by tenant."""
        return {tenant: own["weight"] for tenant, own in self.keys.items() if "weight" in own}

    @property
    def limits(self) -> KeyLimits:
        """Those of a key that has none of its own."""
        return KeyLimits(self.max_in_flight, self.rate, self.burst)

    @property
    def is_limited(self) -> bool:
        """Whether any key has a cap or a leash."""
        return any((self.limits, *self.own_limits.values()))

    @property
    def own_limits(self) -> dict[str, KeyLimits]:
        """Those that keys have of their own, by tenant."""
        own = {
            tenant: self.limits._replace(**{n: v for n, v in options.items() if n != "weight"})
            for tenant, options in self.keys.items()
        }
        return {tenant: limits for tenant, limits in own.items() if limits != self.limits}


@values.by_queue
def keyed_queues(where: str, name: str, options: Any) -> KeyedQueue:
    """Check an entry of ``fair_keys``."""
    queue = KeyedQueue(name, **from_options(KeyedQueue, where, options))
    limits = [queue.limits, *queue.own_limits.values()]
    if any(each.burst != 1 for each in limits) and all(each.rate is None for each in limits):
        raise ImproperlyConfigured(f"{where}: 'burst' needs a 'rate', such as '10/s'")
    return queue


def with_keys(
    queues: values.ByQueue,
    keyed: Collection[str],
    partitioned: Collection[str],
    logical: Collection[str],
) -> values.ByQueue:
    """Return ``fair_queues`` with each keyed queue asked for its messages, one by one.

    Raises:
        celery.exceptions.ImproperlyConfigured: a queue cannot be shared by key.
    """
    taken = dict(queues)
    for name in keyed:
        for others, what in ((partitioned, "partitions"), (logical, "levels")):
            if name in others:
                raise ImproperlyConfigured(
                    f"fair_keys: {name!r} has {what}; a queue is shared by key, or has them"
                )
        options = taken.get(name, {})
        if options.get("fetch", "pull") != "pull":
            raise ImproperlyConfigured(
                f"fair_queues[{name!r}]['fetch']: a queue of fair_keys is pulled from; leave"
                f" {options['fetch']!r} out"
            )
        taken[name] = {**options, "fetch": "pull"}
    return taken
