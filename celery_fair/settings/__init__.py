"""The `fair_…` settings: read once, checked whole, refused with setting, queue and value named.

They live on ``app.conf`` like Celery's own: as attributes, in a config module, or under Django's
``CELERY_FAIR_…``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.chooser import Targets, targets_of
from celery_fair.core.targets import FLOOR
from celery_fair.settings import values
from celery_fair.settings.keys import (
    KeyedQueue,
    KeyLimits,
    keyed_queues,
    live_key_options,
    with_keys,
)
from celery_fair.settings.logical import LogicalQueue, check_logical
from celery_fair.settings.partitions import (
    SERIAL,
    PartitionedQueue,
    partitioned_queues,
    with_partitions,
)
from celery_fair.settings.queues import (
    QueueOptions,
    given_options,
    parse_live_options,
    refuse_together,
)
from celery_fair.settings.table import from_conf, table

if TYPE_CHECKING:
    from celery import Celery

__all__ = [
    "Cost",
    "CostKey",
    "KeyLimits",
    "KeyedQueue",
    "LogicalQueue",
    "PartitionedQueue",
    "QueueOptions",
    "Settings",
    "live_key_options",
    "parse_live_options",
]

Cost = Callable[[str, tuple[Any, ...], dict[str, Any], dict[str, Any]], float]
"""``cost(task_name, args, kwargs, headers)``: what a message costs, above zero, in any one unit."""

CostKey = Callable[[str, tuple[Any, ...], dict[str, Any], dict[str, Any]], str | None]
"""``key(task_name, args, kwargs, headers)``: messages of one key take about the same time."""

_SIGNATURE = "a callable (task, args, kwargs, headers) ->"


def _cost(where: str, value: Any) -> Cost | Literal["runtime"] | None:
    if value == "runtime":
        return "runtime"
    if value == 1 and not isinstance(value, bool):
        return None
    return values.function(f"1, 'runtime', {_SIGNATURE} number")(where, value)  # type: ignore[no-any-return]


_cost_key = values.or_none(values.function(f"{_SIGNATURE} text"))
_floor = values.number(lambda value: 0 < value <= 0.1, "a number above 0 and up to 0.1")


@dataclass(frozen=True)
class Settings:
    """All settings of one app, checked. Made by `Settings.of`."""

    queues: Annotated[Mapping[str, QueueOptions], given_options] = field(default_factory=dict)
    """Options by the queue's name: its share, window, class, leash, cap."""
    default_quantum: values.Quantum = 1.0
    """The quantum of every queue that has none of its own."""
    cost: Annotated[Cost | Literal["runtime"] | None, _cost] = None
    """What a message costs: the same as any other, its run time, or what a callable says."""
    cost_key: Annotated[CostKey | None, _cost_key] = None
    """Which messages of a task take about the same time."""
    cost_model: values.Text = None
    """A file from which a worker that has just started knows what messages take."""
    logical_queues: Annotated[Mapping[str, LogicalQueue], check_logical] = field(
        default_factory=dict
    )
    """Queues of one name to publishers, and of several priorities at the broker."""
    policy: Annotated[str, values.choice("dwrr", "strict")] = "dwrr"
    """Whether all queues share the worker, or those of a higher class go first."""
    max_wait: values.SecondsOrNone = None
    """Seconds after which a message that waits is treated as one class higher."""
    overload: Annotated[str, values.choice("importance", "proportion")] = "importance"
    """Whether the least important targets are missed first, or all in proportion."""
    floor: Annotated[float, _floor] = FLOOR
    """What a queue has of the worker at the least while others are urgent for their targets."""
    leash_url: values.RedisUrl = field(default=None, repr=False)
    """The Redis that keeps the leashes of all workers together."""
    metrics: values.Listening = None
    """Where the worker serves its figures to Prometheus."""
    fast_path: values.Flag = True
    """Whether the usual message takes a shorter way from the socket to the pool."""
    ack_batch: values.Positive = 1
    """How many messages are acknowledged together on that way, at the most."""
    allow_untested_transport: values.Flag = False
    """Whether a worker starts on a broker that this library is not tested with."""
    dead_letters: values.QueueName = "dead-letters"
    """The queue of the messages that must not start."""
    ledger: values.Url = field(default=None, repr=False)
    """The ledger in which the work of non-repeatable tasks is claimed before it starts."""
    ledger_expiry: values.Seconds = 7 * 86400
    """Seconds after which the ledger forgets a claim."""
    ledger_since: values.Moment = None
    """Since when every worker has the ledger, so that a missing claim proves something."""
    event_log: values.Text = None
    """The folder of the event log."""
    event_log_fsync: Annotated[str, values.choice("never", "seal", "always")] = "never"
    """When a record is forced to the disk."""
    event_log_rotate: values.Seconds = 60.0
    """Seconds after which a file of the event log is sealed."""
    event_log_limit: values.Positive = 10 << 30
    """Bytes that the sealed files of one host may take."""
    event_log_required: values.Flag = True
    """Whether a non-repeatable task waits while the event log cannot be written."""
    partitioned: Annotated[Mapping[str, PartitionedQueue], partitioned_queues] = field(
        default_factory=dict, metadata={"name": "partitions"}
    )
    """Queues whose partitions a group of workers shares."""
    keys: Annotated[Mapping[str, KeyedQueue], keyed_queues] = field(default_factory=dict)
    """Queues that are shared fairly among the keys of their messages, such as tenants."""
    key_store: values.RedisUrl = field(default=None, repr=False)
    """The Redis that counts what keys run, and makes shares all workers', beside RabbitMQ."""
    group_store: values.Url = field(default=None, repr=False)
    """Where groups are kept."""
    group_lease: values.Seconds = 60.0
    """How long a worker that is not heard of keeps its partitions, in seconds."""
    group_recovery: values.SecondsOrNone = 30.0
    """Seconds after which a worker that has lost its lease tries again."""
    leash_prefix: str = ""
    default_fetch: str = "push"

    @classmethod
    def of(cls, app: "Celery") -> "Settings":
        """Read and check the app's settings.

        Raises:
            celery.exceptions.ImproperlyConfigured: naming the setting, the queue, the value and
                what is allowed.
        """
        conf = app.conf
        _refuse_unknown(conf)
        given = from_conf(cls, "fair_", conf)
        each = cls(**given)
        every = with_partitions(given.get("queues", {}), each.partitioned, each.logical_queues)
        every = with_keys(every, each.keys, each.partitioned, each.logical_queues)
        queues = _queues(every, each.default_quantum, each.logical_queues)
        _refuse_together(queues, each)
        leash_url = _leash_url(each.leash_url, conf, queues)
        key_store = each.key_store or leash_url
        # By it apps in one database are told apart.
        prefix = str((conf.broker_transport_options or {}).get("global_keyprefix") or "")
        return replace(
            each,
            queues=queues,
            leash_url=leash_url,
            leash_prefix="" if each.leash_url else prefix,
            key_store=key_store,
        )

    @property
    def targets(self) -> Targets | None:
        """What queues with a target are chosen by; None if there is none."""
        queues = {name: (each.target, each.importance) for name, each in self.queues.items()}
        return targets_of(queues, self.overload == "proportion", self.floor)

    @property
    def partitions(self) -> dict[str, list[str]]:
        """By group, the partitions that its workers share."""
        groups: dict[str, list[str]] = {}
        for queue in self.partitioned.values():
            groups.setdefault(queue.group, []).extend(queue.queues)
        return groups

    @property
    def by_key(self) -> frozenset[str]:
        """The partitions whose keys run in parallel."""
        keyed = (queue for queue in self.partitioned.values() if queue.serial == "key")
        return frozenset(name for queue in keyed for name in queue.queues)

    @property
    def serial(self) -> frozenset[str]:
        """The partitions that run one task at a time."""
        every = (name for queue in self.partitioned.values() for name in queue.queues)
        return frozenset(every) - self.by_key

    def fenced(self) -> "Settings":
        """Return the settings for a broker that can keep a second consumer from a queue."""
        pushed = {
            name: replace(self.queues[name], exclusive=True)
            for queue in self.partitioned.values()
            for name in queue.queues
            if self.queues[name].fetch == "push"
        }
        return replace(self, queues={**self.queues, **pushed})

    def pulling(self) -> "Settings":
        """Return the settings for a worker that holds nothing ahead of its turn.

        A queue that has a window of its own, by ``prefetch``, keeps it.
        """
        pulled = {
            name: options if options.prefetch else replace(options, fetch="pull")
            for name, options in self.queues.items()
        }
        return replace(self, queues=pulled, default_fetch="pull")

    def queue(self, name: str) -> QueueOptions:
        """Return the options of a queue, the defaults if it is not named in ``fair_queues``."""
        default = QueueOptions(self.default_quantum, fetch=self.default_fetch)
        return self.queues.get(name) or default

    def changed(
        self, queue: str, options: Mapping[str, Any], before: QueueOptions | None = None
    ) -> QueueOptions:
        """Return a queue's options after a change while it is consumed, checked together.

        Arguments:
            options: what of `QueueOptions` is to change.
            before: what they were; None for what the settings say.

        Raises:
            celery.exceptions.ImproperlyConfigured: as `parse_live_options`; also for options that
                mean nothing to this queue.
        """
        changes = parse_live_options(queue, options)
        after = replace(before or self.queue(queue), **changes)
        if "target" in changes and None in {after.target, self.queue(queue).target}:
            raise ImproperlyConfigured(
                f"set {queue}: a 'target' can be changed while consuming, not given or taken away:"
                f" set fair_queues[{queue!r}] and restart the workers"
            )
        if "max_in_flight" in changes and queue in self.serial:
            raise ImproperlyConfigured(f"set {queue}: {SERIAL}")
        refuse_together(f"set {queue}", after, changes)
        return after


def _refuse_unknown(conf: Any) -> None:
    known = [f"fair_{name}" for name in table(Settings)]
    for key in conf.keys():  # noqa: SIM118 - Celery's view iterates over sections, not keys
        name = str(key).lower().removeprefix("celery_")
        if name.startswith("fair_") and name not in known:
            raise ImproperlyConfigured(
                f"{key} is not a setting of celery_fair; there are: {', '.join(known)}"
            )


def _refuse_together(queues: Mapping[str, QueueOptions], settings: Settings) -> None:
    """Refuse what has no meaning beside another setting."""
    for name, options in queues.items():
        if options.level and settings.policy != "strict":
            raise ImproperlyConfigured(
                f"fair_queues[{name!r}]['class']: {options.level} has no meaning with fair_policy ="
                f" {settings.policy!r}; set fair_policy = 'strict', or leave the class out"
            )
        if options.target is not None and settings.policy == "strict":
            raise ImproperlyConfigured(
                f"fair_queues[{name!r}]['target'] has no meaning with fair_policy = 'strict', where"
                " classes say who goes first; leave one of the two out"
            )
    if settings.max_wait is not None and settings.policy != "strict":
        raise ImproperlyConfigured(
            "fair_max_wait needs fair_policy = 'strict': nothing starves without"
        )
    learns, aims = settings.cost == "runtime", any(each.target for each in queues.values())
    for setting, has_it, needed in (
        ("cost_key", learns, "fair_cost = 'runtime'"),
        ("cost_model", learns, "fair_cost = 'runtime'"),
        ("overload", aims, "a 'target' in fair_queues"),
        ("floor", aims, "a 'target' in fair_queues"),
    ):
        if getattr(settings, setting) != getattr(Settings, setting) and not has_it:
            raise ImproperlyConfigured(f"fair_{setting} has a meaning with {needed} only")


def _queues(
    given: values.ByQueue, default_quantum: float, logical: Mapping[str, LogicalQueue]
) -> dict[str, QueueOptions]:
    queues = {}
    for name, options in given.items():
        if name in logical and not logical[name].native:
            raise ImproperlyConfigured(
                f"fair_queues: {name!r} is a logical queue; give options to its levels:"
                f" {', '.join(logical[name].levels.queues)}"
            )
        queues[name] = QueueOptions(**{"quantum": default_quantum, **options})
        refuse_together(f"fair_queues[{name!r}]", queues[name], options)
    return queues


def _leash_url(given: str | None, conf: Any, queues: Mapping[str, QueueOptions]) -> str | None:
    url = given or _broker_url(conf)
    if url is not None and url.startswith(values.REDIS_SCHEMES):
        return url
    clustered = [name for name, options in queues.items() if options.scope == "cluster"]
    if clustered:
        raise ImproperlyConfigured(
            f"fair_queues[{clustered[0]!r}]['scope']: 'cluster' needs a Redis that all workers"
            f" share; set fair_leash_url = 'redis://…' ('rediss://…'), not"
            f" {url and values.harmless(url)}"
        )
    return None


def _broker_url(conf: Any) -> str | None:
    """Return the first of the broker's URLs, wherever Celery has it from, if it says all."""
    urls = conf.broker_read_url
    url: Any = next(iter(urls), None) if isinstance(urls, (list, tuple)) else urls
    says_all = isinstance(url, str) and not conf.broker_use_ssl and "credential_provider" not in url
    return url.split(";")[0] if says_all else None
