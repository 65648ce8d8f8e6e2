"""How many tasks of a key ran at once, by what they have said, also those that were killed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.apps.recorder import Record
from tests.kills.publisher import Named

__all__ = ["most_at_once"]


class Moment(NamedTuple):
    at: int
    change: int
    tenant: str


def most_at_once(
    started: Iterable[Record], finished: Iterable[Record], deaths: Mapping[int, int]
) -> Counter[str]:
    """Return it by tenant.

    Arguments:
        deaths: of processes, by their ids: when they were dead, on the records' clock.
    """
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for moment in sorted(_moments(started, finished, deaths)):
        running[moment.tenant] += moment.change
        most[moment.tenant] = max(most[moment.tenant], running[moment.tenant])
    return most


def _moments(
    started: Iterable[Record], finished: Iterable[Record], deaths: Mapping[int, int]
) -> Iterator[Moment]:
    """A task ends when it says so, or its process is dead; whose end nobody knows, at once. One
    ends before another begins in the same nanosecond."""
    ends = defaultdict(list)
    for record in finished:
        ends[record.id, record.pid].append(record.monotonic_ns)
    for record in started:
        tenant, began = Named.of(record.id).tenant, record.monotonic_ns
        said = [at for at in ends[record.id, record.pid] if at >= began]
        yield Moment(began, 1, tenant)
        yield Moment(min(said, default=max(began + 1, deaths.get(record.pid, 0))), -1, tenant)
