"""The `fair_…` settings: read once, checked whole, refused with setting, queue and value named.

They live on ``app.conf`` like Celery's own: as attributes, in a config module, or under Django's
``CELERY_FAIR_…``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.levels import Levels, check_levels
from celery_fair.settings.partitions import (
    SERIAL,
    GroupOptions,
    PartitionedQueue,
    group_options,
    partitioned_queues,
    with_partitions,
)
from celery_fair.settings.queues import (
    LIVE_OPTIONS,
    QueueOptions,
    options_of,
    parse_live_options,
    parse_option,
)
from celery_fair.settings.values import (
    Address,
    address,
    flag,
    imported,
    mapping,
    one_of,
    quantum,
    queue_name,
    seconds,
    text,
    url,
    whole,
)

if TYPE_CHECKING:
    from celery import Celery

__all__ = [
    "LIVE_OPTIONS",
    "SERIAL",
    "Address",
    "Cost",
    "CostKey",
    "GroupOptions",
    "LogicalQueue",
    "PartitionedQueue",
    "QueueOptions",
    "Settings",
    "parse_live_options",
    "parse_option",
]

Cost = Callable[[str, tuple[Any, ...], dict[str, Any], dict[str, Any]], float]
"""``cost(task_name, args, kwargs, headers)``: what a message costs, above zero, in any one unit."""

CostKey = Callable[[str, tuple[Any, ...], dict[str, Any], dict[str, Any]], str | None]
"""``key(task_name, args, kwargs, headers)``: messages of one key take about the same time."""

_NAMES = (
    "fair_queues",
    "fair_default_quantum",
    "fair_cost",
    "fair_cost_key",
    "fair_cost_model",
    "fair_logical_queues",
    "fair_policy",
    "fair_max_wait",
    "fair_leash_url",
    "fair_metrics",
    "fair_metrics_queues",
    "fair_pull_interval",
    "fair_fast_path",
    "fair_ack_batch",
    "fair_dead_letters",
    "fair_ledger",
    "fair_ledger_expiry",
    "fair_event_log",
    "fair_event_log_fsync",
    "fair_event_log_rotate",
    "fair_event_log_limit",
    "fair_partitions",
    "fair_group_store",
    *(f"fair_group_{f.name}" for f in fields(GroupOptions) if f.name != "store"),
)
POLICIES = ("dwrr", "strict")
FSYNCS = ("never", "seal", "always")


@dataclass(frozen=True)
class LogicalQueue:
    """One entry of ``fair_logical_queues``.

    Attributes:
        levels: the physical queue of each priority.
        native: the broker's own priorities are used, on one queue of the logical queue's name.
    """

    levels: Levels
    native: bool = False


@dataclass(frozen=True)
class Settings:
    """All settings of one app, checked. Made by `Settings.of`."""

    queues: Mapping[str, QueueOptions] = field(default_factory=dict)
    default_quantum: float = 1.0
    cost: Cost | Literal["runtime"] | None = None
    cost_key: CostKey | None = None
    cost_model: str | None = None
    logical_queues: Mapping[str, LogicalQueue] = field(default_factory=dict)
    policy: str = "dwrr"
    max_wait: float | None = None
    leash_url: str | None = None
    metrics: Address | None = None
    metrics_queues: int = 100
    pull_interval: float = 0.05
    fast_path: bool = True
    ack_batch: int = 1
    dead_letters: str = "dead-letters"
    ledger: str | None = None
    ledger_expiry: float = 7 * 86400
    event_log: str | None = None
    event_log_fsync: str = "never"
    event_log_rotate: float = 60.0
    event_log_limit: int = 10 << 30
    partitioned: Mapping[str, PartitionedQueue] = field(default_factory=dict)
    group: GroupOptions | None = None

    @classmethod
    def of(cls, app: "Celery") -> "Settings":
        """Read and check the app's settings.

        Raises:
            celery.exceptions.ImproperlyConfigured: naming the setting, the queue, the value and
                what is allowed.
        """
        conf = app.conf
        _refuse_unknown(conf)
        default = quantum("fair_default_quantum", conf.get("fair_default_quantum", 1))
        logical = _logical_queues(conf.get("fair_logical_queues"))
        policy = one_of("fair_policy", conf.get("fair_policy", "dwrr"), POLICIES)
        partitioned = partitioned_queues(conf.get("fair_partitions"))
        queues = with_partitions(conf.get("fair_queues"), partitioned, logical)
        queues = _queues(queues, default, logical)
        _refuse_classes(queues, policy)
        cost = _cost(conf.get("fair_cost", 1))
        return cls(
            queues=queues,
            default_quantum=default,
            cost=cost,
            cost_key=_cost_key(conf.get("fair_cost_key"), cost),
            cost_model=_of_runtime(
                "fair_cost_model", text("fair_cost_model", conf.get("fair_cost_model")), cost
            ),
            logical_queues=logical,
            policy=policy,
            max_wait=_max_wait(conf.get("fair_max_wait"), policy),
            leash_url=_leash_url(conf, queues),
            metrics=address("fair_metrics", conf.get("fair_metrics")),
            metrics_queues=whole("fair_metrics_queues", conf.get("fair_metrics_queues", 100), 1),
            dead_letters=queue_name(
                "fair_dead_letters", conf.get("fair_dead_letters", "dead-letters")
            ),
            ledger=url("fair_ledger", conf.get("fair_ledger")),
            ledger_expiry=seconds(
                "fair_ledger_expiry", conf.get("fair_ledger_expiry", cls.ledger_expiry)
            ),
            event_log=text("fair_event_log", conf.get("fair_event_log")),
            event_log_fsync=one_of(
                "fair_event_log_fsync", conf.get("fair_event_log_fsync", "never"), FSYNCS
            ),
            event_log_rotate=seconds(
                "fair_event_log_rotate", conf.get("fair_event_log_rotate", cls.event_log_rotate)
            ),
            event_log_limit=whole(
                "fair_event_log_limit", conf.get("fair_event_log_limit", cls.event_log_limit), 1
            ),
            pull_interval=seconds("fair_pull_interval", conf.get("fair_pull_interval", 0.05)),
            fast_path=flag("fair_fast_path", conf.get("fair_fast_path", True)),
            ack_batch=whole("fair_ack_batch", conf.get("fair_ack_batch", 1), 1),
            partitioned=partitioned,
            group=group_options(conf),
        )

    @property
    def partitions(self) -> dict[str, list[str]]:
        """By group, the partitions that its workers share."""
        groups: dict[str, list[str]] = {}
        for queue in self.partitioned.values():
            groups.setdefault(queue.group, []).extend(queue.queues)
        return groups

    @property
    def by_key(self) -> frozenset[str]:
        """The partitions whose keys run beside each other."""
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

    def queue(self, name: str) -> QueueOptions:
        """Return the options of a queue, the defaults if it is not named in ``fair_queues``."""
        return self.queues.get(name) or QueueOptions(self.default_quantum)


def _refuse_unknown(conf: Any) -> None:
    for key in conf.keys():  # noqa: SIM118 - Celery's view iterates over sections, not keys
        name = str(key).lower().removeprefix("celery_")
        if name.startswith("fair_") and name not in _NAMES:
            raise ImproperlyConfigured(
                f"{key} is not a setting of celery_fair; there are: {', '.join(_NAMES)}"
            )


def _refuse_classes(queues: Mapping[str, QueueOptions], policy: str) -> None:
    for name, options in queues.items():
        if options.level and policy != "strict":
            raise ImproperlyConfigured(
                f"fair_queues[{name!r}]['class']: {options.level} has no meaning with fair_policy ="
                f" {policy!r}; set fair_policy = 'strict', or leave the class out"
            )


def _queues(
    value: Any, default_quantum: float, logical: Mapping[str, LogicalQueue]
) -> dict[str, QueueOptions]:
    for name in mapping("fair_queues", value):
        if name in logical and not logical[name].native:
            raise ImproperlyConfigured(
                f"fair_queues: {name!r} is a logical queue; give options to its levels:"
                f" {', '.join(logical[name].levels.queues)}"
            )
    return {
        queue_name("fair_queues", name): options_of(name, options, default_quantum)
        for name, options in mapping("fair_queues", value).items()
    }


def _logical_queues(value: Any) -> dict[str, LogicalQueue]:
    logical = {
        queue_name("fair_logical_queues", name): _logical_queue(name, options)
        for name, options in mapping("fair_logical_queues", value).items()
    }
    for name, queue in logical.items():
        for level in queue.levels.queues:
            if level in logical and not logical[level].native:
                raise ImproperlyConfigured(
                    f"fair_logical_queues[{name!r}]['levels']: {level!r} is a logical queue itself;"
                    f" a level must be a queue of the broker"
                )
    return logical


def _logical_queue(name: str, options: Any) -> LogicalQueue:
    where = f"fair_logical_queues[{name!r}]"
    if not isinstance(options, Mapping) or set(options) - {"levels", "native"}:
        raise ImproperlyConfigured(
            f"{where} must be a mapping with 'levels' and, optionally, 'native', not {options!r}"
        )
    native = flag(f"{where}['native']", options.get("native", False))
    levels = options.get("levels", {name: [0, 9]} if native else None)
    try:
        checked = check_levels(levels)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{where}['levels']: {exc}") from None
    for queue in checked.queues:
        queue_name(f"{where}['levels']", queue)
    return LogicalQueue(checked, native)


def _max_wait(value: Any, policy: str) -> float | None:
    if value is None:
        return None
    if policy != "strict":
        raise ImproperlyConfigured(
            "fair_max_wait needs fair_policy = 'strict': nothing starves without"
        )
    return seconds("fair_max_wait", value, ", or None,")


def _leash_url(conf: Any, queues: Mapping[str, QueueOptions]) -> str | None:
    url = text("fair_leash_url", conf.get("fair_leash_url"))
    if url is None:
        url = _broker_url(conf)
    clustered = [name for name, options in queues.items() if options.scope == "cluster"]
    if url is not None and url.startswith(("redis://", "rediss://", "unix://")):
        return url
    if clustered:
        shown = url and f"{url.partition('://')[0]}://…"  # there may be a password in it
        raise ImproperlyConfigured(
            f"fair_queues[{clustered[0]!r}]['scope']: 'cluster' needs a Redis that all workers"
            f" share; set fair_leash_url = 'redis://…', not {shown!r}"
        )
    return None


def _broker_url(conf: Any) -> str | None:
    """Return the first of the broker's URLs, wherever Celery has it from."""
    url = conf.broker_read_url
    if isinstance(url, (list, tuple)):
        url = url[0] if url else None
    return url.split(";")[0] if isinstance(url, str) else None


def _cost(value: Any) -> Cost | Literal["runtime"] | None:
    if value == "runtime":
        return "runtime"
    if isinstance(value, str):
        value = imported("fair_cost", value)
    if callable(value):
        return value  # type: ignore[no-any-return]
    if value == 1 and not isinstance(value, bool):
        return None
    raise ImproperlyConfigured(
        f"fair_cost must be 1, 'runtime', a callable (task, args, kwargs, headers) -> number, or"
        f" the dotted path of one, not {value!r}"
    )


def _cost_key(value: Any, cost: Any) -> CostKey | None:
    if isinstance(value, str):
        value = imported("fair_cost_key", value)
    if value is not None and not callable(value):
        raise ImproperlyConfigured(
            f"fair_cost_key must be a callable (task, args, kwargs, headers) -> text, or the dotted"
            f" path of one, not {value!r}"
        )
    return _of_runtime("fair_cost_key", value, cost)  # type: ignore[no-any-return]


def _of_runtime(where: str, value: Any, cost: Any) -> Any:
    if value is not None and cost != "runtime":
        raise ImproperlyConfigured(f"{where} has a meaning with fair_cost = 'runtime' only")
    return value
