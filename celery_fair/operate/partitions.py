"""The partitions of an app's groups: who owns which, and what an operator does to a group."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.broker import broker_of
from celery_fair.brokers.depths import depths_of
from celery_fair.core.groups.membership import Grant, Group, elsewhere, living
from celery_fair.groups import GroupStore, StoreUnreachableError, store_at
from celery_fair.groups.document import amend, decoded
from celery_fair.operate.broker import connection_to, trouble_with
from celery_fair.operate.errors import InvalidRequestError, OperateError
from celery_fair.settings import Settings

_FAILURE = "nothing was changed"

_Change = Callable[[Group, Sequence[str]], Group]


@dataclass(frozen=True)
class Partition:
    """One partition.

    Attributes:
        owner: the worker that may consume it, if there is one.
        next: the worker that is to own it, if that is another one.
        token: how often it was granted.
        since: when its owner was granted it, or the last one gave it up, in Unix time.
        waiting: messages at the broker; None if that is not known.
        removed: whether an operator has taken it out.
    """

    partition: str
    group: str
    owner: str | None
    next: str | None
    token: int
    since: float
    waiting: int | None
    removed: bool


class Partitions(NamedTuple):
    """All partitions of the app's groups.

    Attributes:
        notes: what is to be known besides, such as why nobody knows what waits.
    """

    rows: list[Partition]
    notes: list[str]


def look(app: Any) -> Partitions:
    """Return what is known of each partition.

    Raises:
        OperateError: there are none, or the store cannot be reached.
    """
    settings = _settings_of(app)
    with _store_of(settings, "the groups of fair_group_store cannot be read") as store:
        read = {name: store.read(name) for name in sorted(settings.partitions)}
        groups = {name: decoded(each.text) for name, each in read.items()}
    notes = list[str]()
    depths = _depths(app, groups, {name: each.now for name, each in read.items()}, notes)
    rows = [row for name, group in groups.items() for row in _rows(name, group, depths)]
    return Partitions(rows, notes)


def create(app: Any) -> dict[str, bool]:
    """Make what the store needs; return, for each part of it, whether it was missing.

    Raises:
        OperateError: there are no groups, or it cannot be made.
    """
    failure = "what fair_group_store needs cannot be made"
    with _store_of(_settings_of(app), failure) as store:
        return store.create()


def remove(app: Any, names: Sequence[str]) -> set[str]:
    """Take partitions out of their groups; return which were not out before.

    Raises:
        InvalidRequestError: there is no such partition.
        OperateError: there are no groups, or the store cannot be reached.
    """
    return _each_group(app, names, Group.taking_out)


def add(app: Any, names: Sequence[str]) -> set[str]:
    """Put partitions back that were taken out; return which were. As `remove`."""
    return _each_group(app, names, Group.putting_back)


def rebalance(app: Any, groups: Sequence[str]) -> list[str]:
    """Have groups, or all of them, planned afresh; return which.

    Raises:
        InvalidRequestError: there is no such group.
        OperateError: there are no groups, or the store cannot be reached.
    """
    settings = _settings_of(app)
    known = sorted(settings.partitions)
    for group in groups:
        if group not in known:
            raise InvalidRequestError(f"there is no group {group!r}; there are: {', '.join(known)}")
    with _store_of(settings, _FAILURE) as store:
        for group in groups or known:
            amend(store, group, Group.unplanned)
    return list(groups or known)


def by_number(partition: str) -> tuple[str, int, str]:
    """Return what puts ``customers.10`` behind ``customers.9``."""
    queue, _, number = partition.rpartition(".")
    return queue, len(number), number


def _settings_of(app: Any) -> Settings:
    settings = Settings.of(app)
    if settings.group_store is None or not settings.partitioned:
        raise OperateError("the app has no groups: set fair_partitions and fair_group_store")
    return settings


@contextmanager
def _store_of(settings: Settings, failure: str) -> Iterator[GroupStore]:
    """Open the store; whatever it cannot do in here is told after the words in `failure`."""
    assert settings.group_store is not None
    try:
        with closing(store_at(settings.group_store)) as store:
            yield store
    except (StoreUnreachableError, ImproperlyConfigured, ValueError) as exc:
        raise OperateError(f"{failure}: {exc}; start the store, or correct its URL") from exc


def _depths(
    app: Any, groups: Mapping[str, Group], now: Mapping[str, float], notes: list[str]
) -> dict[str, int]:
    with connection_to(app.connection_for_read) as connection:
        trouble = trouble_with(connection)
        if trouble is not None:
            notes.append(trouble)
            return {}
        here = broker_of(connection).identity(connection)
        for name, group in groups.items():
            theirs = elsewhere(group, here, living(group, now[name]))
            for member, broker in sorted(theirs.items())[:1]:
                notes.append(
                    f"group {name!r} is one of workers on another broker: {member} is on {broker},"
                    f" and this app on {here}; its workers consume nothing of the group"
                )
        every = frozenset().union(*(group.partitions for group in groups.values()))
        return depths_of(connection, every, ())


def _rows(name: str, group: Group, depths: Mapping[str, int]) -> Iterator[Partition]:
    """Yield a group's partitions, by number."""
    for partition in sorted(group.partitions, key=by_number):
        grant, planned = group.grants.get(partition, Grant()), group.plan.get(partition)
        yield Partition(
            partition=partition,
            group=name,
            owner=grant.owner,
            next=None if planned == grant.owner else planned,
            token=grant.token,
            since=grant.since,
            waiting=depths.get(partition),
            removed=partition in group.out,
        )


def _each_group(app: Any, names: Sequence[str], change: _Change) -> set[str]:
    """Change the groups of partitions; return which partitions are now in, or out, and were not."""
    settings, moved = _settings_of(app), set[str]()
    by_group = _by_group(settings, names)
    with _store_of(settings, _FAILURE) as store:
        for group, some in by_group.items():
            every = frozenset(settings.partitions[group])
            before, after = amend(store, group, partial(_changed, every, change, some))
            moved |= before.out ^ after.out
    return moved


def _changed(every: frozenset[str], change: _Change, some: Sequence[str], before: Group) -> Group:
    """Nobody may have joined yet: then the group has no partitions that could be changed."""
    return change(before if before.partitions else before.of(every), some)


def _by_group(settings: Settings, names: Sequence[str]) -> dict[str, list[str]]:
    groups = {name: group for group, every in settings.partitions.items() for name in every}
    found: dict[str, list[str]] = {}
    for name in names:
        if name not in groups:
            every = (queue.queues for queue in settings.partitioned.values())
            known = ", ".join(f"{queues[0]} to {queues[-1]}" for queues in every)
            raise InvalidRequestError(
                f"there is no partition {name!r}; by fair_partitions there are: {known}"
            )
        found.setdefault(groups[name], []).append(name)
    return found
