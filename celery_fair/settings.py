"""The `fair_…` settings: read once, checked whole, refused with setting, queue and value named.

They live on ``app.conf`` like Celery's own: as attributes, in a config module, or under Django's
``CELERY_FAIR_…``.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.dwrr import check_quantum
from celery_fair.core.levels import Levels, check_levels
from celery_fair.core.token_bucket import parse_rate

if TYPE_CHECKING:
    from celery import Celery

__all__ = [
    "LIVE_OPTIONS",
    "Address",
    "Cost",
    "LogicalQueue",
    "QueueOptions",
    "Settings",
    "parse_live_options",
    "parse_option",
]

Cost = Callable[[str, tuple[Any, ...], dict[str, Any], dict[str, Any]], float]
"""``cost(task_name, args, kwargs, headers)``: what a message costs, above zero, in any one unit."""

_NAMES = (
    "fair_queues",
    "fair_default_quantum",
    "fair_cost",
    "fair_logical_queues",
    "fair_policy",
    "fair_max_wait",
    "fair_leash_url",
    "fair_metrics",
    "fair_metrics_queues",
    "fair_pull_interval",
    "fair_dead_letters",
    "fair_ledger",
    "fair_ledger_expiry",
)
POLICIES = ("dwrr", "strict")
SCOPES = ("worker", "cluster")
FETCHES = ("push", "pull")

LIVE_OPTIONS = ("quantum", "rate", "burst", "max_in_flight", "prefetch")
"""Options that can be changed while consuming; the others are the queue's subscription."""

_LONGEST_NAME = 255  # bytes; AMQP's short string
_LARGEST_COUNT = 65535  # AMQP's prefetch count is a short
_LARGEST_BURST = 1_000_000_000  # far above it, a float would not tell a token
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://?")
_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9_.-]+)):(?P<port>[0-9]{1,5})"
)


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


@dataclass(frozen=True)
class LogicalQueue:
    """One entry of ``fair_logical_queues``.

    Attributes:
        levels: the physical queue of each priority.
        native: the broker's own priorities are used, on one queue of the logical queue's name.
    """

    levels: Levels
    native: bool = False


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True)
class Settings:
    """All settings of one app, checked. Made by `Settings.of`."""

    queues: Mapping[str, QueueOptions] = field(default_factory=dict)
    default_quantum: float = 1.0
    cost: Cost | None = None
    logical_queues: Mapping[str, LogicalQueue] = field(default_factory=dict)
    policy: str = "dwrr"
    max_wait: float | None = None
    leash_url: str | None = None
    metrics: Address | None = None
    metrics_queues: int = 100
    pull_interval: float = 0.05
    dead_letters: str = "dead-letters"
    ledger: str | None = None
    ledger_expiry: float = 7 * 86400

    @classmethod
    def of(cls, app: "Celery") -> "Settings":
        """Read and check the app's settings.

        Raises:
            celery.exceptions.ImproperlyConfigured: naming the setting, the queue, the value and
                what is allowed.
        """
        conf = app.conf
        _refuse_unknown(conf)
        default = _quantum("fair_default_quantum", conf.get("fair_default_quantum", 1))
        logical = _logical_queues(conf.get("fair_logical_queues"))
        policy = _one_of("fair_policy", conf.get("fair_policy", "dwrr"), POLICIES)
        queues = _queues(conf.get("fair_queues"), default, logical)
        _refuse_classes(queues, policy)
        return cls(
            queues=queues,
            default_quantum=default,
            cost=_cost(conf.get("fair_cost", 1)),
            logical_queues=logical,
            policy=policy,
            max_wait=_max_wait(conf.get("fair_max_wait"), policy),
            leash_url=_leash_url(conf, queues),
            metrics=_address("fair_metrics", conf.get("fair_metrics")),
            metrics_queues=_whole("fair_metrics_queues", conf.get("fair_metrics_queues", 100), 1),
            dead_letters=_queue_name(
                "fair_dead_letters", conf.get("fair_dead_letters", "dead-letters")
            ),
            ledger=_url("fair_ledger", conf.get("fair_ledger")),
            ledger_expiry=_seconds(
                "fair_ledger_expiry", conf.get("fair_ledger_expiry", cls.ledger_expiry)
            ),
            pull_interval=_seconds("fair_pull_interval", conf.get("fair_pull_interval", 0.05)),
        )

    def queue(self, name: str) -> QueueOptions:
        """Return the options of a queue, the defaults if it is not named in ``fair_queues``."""
        return self.queues.get(name) or QueueOptions(self.default_quantum)


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
    for name in _mapping("fair_queues", value):
        if name in logical and not logical[name].native:
            raise ImproperlyConfigured(
                f"fair_queues: {name!r} is a logical queue; give options to its levels:"
                f" {', '.join(logical[name].levels.queues)}"
            )
    return {
        _queue_name("fair_queues", name): _options(name, options, default_quantum)
        for name, options in _mapping("fair_queues", value).items()
    }


def _mapping(where: str, value: Any) -> Mapping[Any, Any]:
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    raise ImproperlyConfigured(
        f"{where} must be a mapping of queue names to options, not {value!r}"
    )


def _queue_name(where: str, name: Any) -> str:
    if isinstance(name, str) and name.strip() and len(name.encode()) <= _LONGEST_NAME:
        return name
    raise ImproperlyConfigured(
        f"{where}: {name!r} is no queue name; a name is text of 1 to {_LONGEST_NAME} bytes"
    )


def _options(name: str, options: Any, default_quantum: float) -> QueueOptions:
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


def _quantum(where: str, value: Any) -> float:
    try:
        return check_quantum(value)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{where}: {exc}") from None
    except OverflowError as exc:
        raise ImproperlyConfigured(f"{where}: quantum must be a finite number: {exc}") from None


def _count(where: str, value: Any) -> int | None:
    if value is None or (_is_whole(value) and 1 <= value <= _LARGEST_COUNT):
        return value  # type: ignore[no-any-return]
    raise ImproperlyConfigured(
        f"{where} must be a whole number from 1 to {_LARGEST_COUNT}, or None, not {value!r}"
    )


def _burst(where: str, value: Any) -> int:
    return _whole(where, value, 1, _LARGEST_BURST)


def _level(where: str, value: Any) -> int:
    return _whole(where, value, 0, _LARGEST_COUNT)


def _whole(where: str, value: Any, least: int, most: float = math.inf) -> int:
    if _is_whole(value) and least <= value <= most:
        return value  # type: ignore[no-any-return]
    bounds = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
    raise ImproperlyConfigured(f"{where} must be a whole number {bounds}, not {value!r}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _rate(where: str, value: Any) -> float | None:
    try:
        return None if value is None else parse_rate(value)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{where}: {exc}") from None


def _flag(where: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ImproperlyConfigured(f"{where} must be True or False, not {value!r}")


def _scope(where: str, value: Any) -> str:
    return _one_of(where, value, SCOPES)


def _fetch(where: str, value: Any) -> str:
    return _one_of(where, value, FETCHES)


def _one_of(where: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value in allowed:
        return str(value)
    raise ImproperlyConfigured(
        f"{where} must be one of {', '.join(map(repr, allowed))}, not {value!r}"
    )


def _text(where: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise ImproperlyConfigured(f"{where} must be text, not {value!r}")


def _url(where: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and _SCHEME.match(value)):
        return value
    shown = value.partition("@")[2] if isinstance(value, str) and "@" in value else value
    raise ImproperlyConfigured(
        f"{where} must be a URL such as 'redis://localhost/1', 'sqlite:////var/lib/shop/ledger.db'"
        f" or 'postgresql+psycopg://user@host/shop', or None, not {shown!r}"
    )


def _address(where: str, value: Any) -> Address | None:
    if value is None:
        return None
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 1 <= int(match["port"]) <= _LARGEST_COUNT:
        raise ImproperlyConfigured(
            f"{where} must be 'host:port' with a port from 1 to {_LARGEST_COUNT}, such as"
            f" '127.0.0.1:9808', '[::1]:9808', or '0.0.0.0:9808' for all addresses, or None,"
            f" not {value!r}"
        )
    return Address(match["v6"] or match["host"], int(match["port"]))


_OPTIONS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "quantum": ("quantum", _quantum),
    "prefetch": ("prefetch", _count),
    "class": ("level", _level),
    "rate": ("rate", _rate),
    "burst": ("burst", _burst),
    "scope": ("scope", _scope),
    "max_in_flight": ("max_in_flight", _count),
    "exclusive": ("exclusive", _flag),
    "fetch": ("fetch", _fetch),
}
assert {name for name, _ in _OPTIONS.values()} == {f.name for f in fields(QueueOptions)}


def _logical_queues(value: Any) -> dict[str, LogicalQueue]:
    logical = {
        _queue_name("fair_logical_queues", name): _logical_queue(name, options)
        for name, options in _mapping("fair_logical_queues", value).items()
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
    native = _flag(f"{where}['native']", options.get("native", False))
    levels = options.get("levels", {name: [0, 9]} if native else None)
    try:
        checked = check_levels(levels)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{where}['levels']: {exc}") from None
    for queue in checked.queues:
        _queue_name(f"{where}['levels']", queue)
    return LogicalQueue(checked, native)


def _max_wait(value: Any, policy: str) -> float | None:
    if value is None:
        return None
    if policy != "strict":
        raise ImproperlyConfigured(
            "fair_max_wait needs fair_policy = 'strict': nothing starves without"
        )
    return _seconds("fair_max_wait", value, ", or None,")


def _seconds(where: str, value: Any, besides: str = ",") -> float:
    try:
        return check_quantum(value)
    except ValueError:
        raise ImproperlyConfigured(
            f"{where} must be a finite number of seconds above zero{besides} not {value!r}"
        ) from None


def _leash_url(conf: Any, queues: Mapping[str, QueueOptions]) -> str | None:
    url = _text("fair_leash_url", conf.get("fair_leash_url"))
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


def _cost(value: Any) -> Cost | None:
    if isinstance(value, str):
        value = _imported(value)
    if callable(value):
        return value  # type: ignore[no-any-return]
    if value == 1 and not isinstance(value, bool):
        return None
    raise ImproperlyConfigured(
        f"fair_cost must be 1, or a callable (task, args, kwargs, headers) -> number, or the dotted"
        f" path of one, not {value!r}"
    )


def _imported(path: str) -> Any:
    module, _, attribute = path.replace(":", ".").rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as exc:
        raise ImproperlyConfigured(f"fair_cost: cannot import {path!r}: {exc}") from exc
