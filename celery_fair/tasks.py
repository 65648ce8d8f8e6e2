"""Tasks that start at most once."""

import hashlib
import re
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NoReturn

from celery import Task
from celery.exceptions import ImproperlyConfigured

from celery_fair.core.disposition import Policy

MAPS = ("celery.map", "celery.starmap", "celery.chunks")
"""Celery's own tasks, repeatable ones, that run another task's work within them."""

_POLICIES = {"before": Policy.BEFORE, "after": Policy.AFTER}
_LONGEST_KEY = 200  # characters
_NO_TEXT = re.compile("[\0\ud800-\udfff]")  # to a database, though it is to Python and in JSON


class NonRepeatableTask(Task):  # type: ignore[type-arg]
    """A task that a worker with `FairConsumerStep` starts at most once for each message.

    Use it as a base: ``@app.task(base=NonRepeatableTask)``. A message that was delivered before is
    never started; it goes to the dead letters, with the reason. See the guide on non-repeatable
    tasks for what that costs.

    Attributes:
        ack: ``"before"``: the message is acknowledged, and then the task starts; a crash loses it.
            ``"after"``: it is acknowledged when the task has ended; after a crash it goes to the
            dead letters.
        key: what names the work for a ledger (`fair_ledger`): a callable of the task's arguments,
            such as ``key=lambda order, **rest: order``; the task's id by default. Of several
            messages with the same key one starts.
        confirm: with ``"before"``: whether to wait, after the acknowledgement, for a round trip to
            the broker, about 0.3 ms. It notices a connection that takes bytes and delivers none.

    Raises:
        celery.exceptions.ImproperlyConfigured: at its definition, for options that contradict this.
    """

    abstract = True
    Request = "celery_fair.worker.launch.requests:OnceRequest"
    Strategy = "celery_fair.worker.launch.requests:strategy"
    ack = "before"
    confirm = False
    key: Callable[..., object] | None = None
    acks_late = False
    # Not to be taken from the app's settings, which mean other tasks.
    acks_on_failure = True
    acks_on_timeout = True
    acks_on_failure_or_timeout = True  # before Celery 5.7
    reject_on_worker_lost = False
    retry_on_worker_lost = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if isinstance(vars(cls).get("key"), FunctionType):
            cls.key = staticmethod(vars(cls)["key"])
        _check(cls)
        cls.acks_late = cls.ack == "after"

    @classmethod
    def annotate(cls) -> None:
        """As Celery's, by ``task_annotations``.

        Raises:
            celery.exceptions.ImproperlyConfigured: these contradict what the task promises.
        """
        super().annotate()
        _check(cls)

    def work(self, request: Any) -> str:
        """Return what names the work of a request, as `claimable` as that is.

        A task that was put in another's place (``self.replace()``) has the other's id; the message
        says how often that has been done.

        Raises:
            ValueError: the task's `key` has made nothing of the arguments.
            Exception: whatever `key` raises.
        """
        if self.key is None:
            nesting = (request.message.headers or {}).get("replaced_task_nesting")
            named = f"{request.id}, replacement {nesting}" if nesting else str(request.id)
        else:
            args, kwargs, _ = request._payload
            key = self.key(*args, **kwargs)
            if key is None or key == "":
                raise ValueError(f"the key of {self.name} is {key!r}, which names no work")
            named = f"{self.name}:{key}"
        return claimable(named)

    def retry(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: a retry is a second start.

        Raises:
            celery.exceptions.ImproperlyConfigured: always.
        """
        raise ImproperlyConfigured(
            f"{self.name} is non-repeatable and cannot be retried; if the work is known not to have"
            " been done, publish a new task"
        )

    def _run_within_another(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: it would run within a task of Celery's, which is repeatable.

        Raises:
            celery.exceptions.ImproperlyConfigured: always.
        """
        raise _mapped(self.name)

    map = starmap = chunks = _run_within_another


def claimable(name: str) -> str:
    """Return a name that each kind of ledger takes: another's digest if it does not do itself.

    One that a ledger refuses would start whenever it comes, as if there were no ledger.
    """
    if len(name) <= _LONGEST_KEY and not _NO_TEXT.search(name):
        return name
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


def is_of(owner: str, id_: str) -> bool:
    """Whether who has claimed something is a message of this id: it stands behind the attempt's."""
    return f" {owner}".endswith(f" {claimable(id_)}")


def refuse_mapped(request: Any) -> None:
    """Refuse a request of one of `MAPS`, if what that is to run is non-repeatable.

    Raises:
        celery.exceptions.ImproperlyConfigured: it is.
        Exception: the message has no arguments, or they cannot be decoded.
    """
    args, kwargs, _ = request._payload
    mapped = kwargs.get("task") if isinstance(kwargs, Mapping) else None
    if mapped is None and isinstance(args, (list, tuple)) and args:
        mapped = args[0]
    name = mapped.get("task") if isinstance(mapped, Mapping) else None
    if isinstance(name, str) and isinstance(request.task.app.tasks.get(name), NonRepeatableTask):
        raise _mapped(name)


def _mapped(name: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(
        f"{name} is non-repeatable, and Celery's map, starmap and chunks are repeatable tasks that"
        f" would run its work; publish a task for each: group({name}.s(item) for item in …)"
    )


def policy_of(task: Any) -> Policy:
    """Return what a task promises."""
    return _POLICIES[task.ack] if isinstance(task, NonRepeatableTask) else Policy.REPEATABLE


def non_repeatable(app: Any) -> list[str]:
    """Return the names of an app's non-repeatable tasks, in their order."""
    return [name for name in sorted(app.tasks) if isinstance(app.tasks[name], NonRepeatableTask)]


def _check(cls: type[NonRepeatableTask]) -> None:
    def refuse(what: str) -> NoReturn:
        raise ImproperlyConfigured(f"{cls.__name__} is non-repeatable: {what}")

    if cls.ack not in list(_POLICIES):  # which may be unhashable
        refuse(f"ack must be one of {', '.join(map(repr, _POLICIES))}, not {cls.ack!r}")
    if not isinstance(cls.confirm, bool):
        refuse(f"confirm must be True or False, not {cls.confirm!r}")
    if cls.confirm and cls.ack == "after":
        refuse(
            "confirm belongs to ack = 'before'; with 'after' the acknowledgement follows the work"
        )
    if cls.key is not None and not callable(cls.key):
        refuse(f"key must be a callable of the task's arguments, not {cls.key!r}")
    late = vars(cls).get("acks_late")
    if late is not None and late != (cls.ack == "after"):
        refuse(f"acks_late = {late!r} contradicts ack = {cls.ack!r}; leave acks_late out")
    for option in ("reject_on_worker_lost", "retry_on_worker_lost"):
        if getattr(cls, option):
            refuse(f"{option} would start it again after a crash")
    if getattr(cls, "autoretry_for", ()):
        refuse("autoretry_for would start it again after an error")
