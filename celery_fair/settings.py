"""The `fair_…` settings: read once, checked whole, refused with the setting, queue and value named.

They live on ``app.conf`` like Celery's own: as attributes, in a config module, or under Django's
``CELERY_FAIR_…``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.dwrr import check_quantum

if TYPE_CHECKING:
    from celery import Celery

__all__ = ["Cost", "QueueOptions", "Settings"]

Cost = Callable[[str, tuple[Any, ...], dict[str, Any], dict[str, Any]], float]
"""``cost(task_name, args, kwargs, headers)``: what a message costs, above zero, in any one unit."""

_NAMES = ("fair_queues", "fair_default_quantum", "fair_cost")
_LONGEST_NAME = 255  # bytes; AMQP's short string


@dataclass(frozen=True)
class QueueOptions:
    """One queue's options, as in ``fair_queues[name]``.

    Attributes:
        quantum: cost served per round, above zero; the queue's share is its quantum by the sum of
            the quanta of all backlogged queues.
        prefetch: the queue's window in messages; None lets it adapt.
    """

    quantum: float
    prefetch: int | None = None


@dataclass(frozen=True)
class Settings:
    """All settings of one app, checked. Made by `Settings.of`."""

    queues: Mapping[str, QueueOptions] = field(default_factory=dict)
    default_quantum: float = 1.0
    cost: Cost | None = None

    @classmethod
    def of(cls, app: "Celery") -> "Settings":
        """Read and check the app's settings.

        Raises:
            celery.exceptions.ImproperlyConfigured: naming the setting, the queue, the value and
                what is allowed.
        """
        _refuse_unknown(app.conf)
        default = _quantum("fair_default_quantum", app.conf.get("fair_default_quantum", 1))
        return cls(
            queues=_queues(app.conf.get("fair_queues"), default),
            default_quantum=default,
            cost=_cost(app.conf.get("fair_cost", 1)),
        )

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


def _queues(value: Any, default_quantum: float) -> dict[str, QueueOptions]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ImproperlyConfigured(
            f"fair_queues must be a mapping of queue names to options, not {value!r}"
        )
    return {
        _queue_name(name): _options(name, opts, default_quantum) for name, opts in value.items()
    }


def _queue_name(name: Any) -> str:
    if isinstance(name, str) and name.strip() and len(name.encode()) <= _LONGEST_NAME:
        return name
    raise ImproperlyConfigured(
        f"fair_queues: {name!r} is no queue name; a name is text of 1 to {_LONGEST_NAME} bytes"
    )


def _options(name: str, options: Any, default_quantum: float) -> QueueOptions:
    where = f"fair_queues[{name!r}]"
    if not isinstance(options, Mapping):
        raise ImproperlyConfigured(
            f"{where} must be a mapping of options such as {{'quantum': 10}}, not {options!r}"
        )
    known = set(QueueOptions.__dataclass_fields__)
    for option in options:
        if option not in known:
            raise ImproperlyConfigured(
                f"{where}: unknown option {option!r}; there are: {', '.join(sorted(known))}"
            )
    return QueueOptions(
        quantum=_quantum(f"{where}['quantum']", options.get("quantum", default_quantum)),
        prefetch=_prefetch(f"{where}['prefetch']", options.get("prefetch")),
    )


def _quantum(where: str, value: Any) -> float:
    try:
        return check_quantum(value)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{where}: {exc}") from None
    except OverflowError as exc:
        raise ImproperlyConfigured(f"{where}: quantum must be a finite number: {exc}") from None


def _prefetch(where: str, value: Any) -> int | None:
    if value is None or (
        isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 65536
    ):
        return value
    raise ImproperlyConfigured(
        f"{where}: a window is a whole number from 1 to 65535, not {value!r}"
    )


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
