"""Messages that wait where no worker looks any more, since a setting was changed."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

from celery_fair.brokers.depths import depths_of
from celery_fair.operate.doctor.findings import Finding, listed, weak
from celery_fair.settings import Settings

_MOST = 1000
"""Queues that are asked about, at the most."""

_PARTITIONS = 64
"""Partitions of one, at the most, that there may have been."""


def stranded(connection: Any, settings: Settings, queues: Collection[str]) -> Iterator[Finding]:
    """Look at partitions that there may have been, and where dead letters are by default.

    Arguments:
        connection: connected, to the app's broker.
        queues: those that workers consume.
    """
    known = {*queues, settings.dead_letters}
    left = []
    with suppress(Exception):  # what may not be looked at, others say
        for name, depth in _former(connection, settings, queues):
            if depth and name not in known:
                left.append(f"{name} ({depth})")
    if left:
        yield weak(
            "queues",
            f"messages wait where no worker of this app looks: {listed(left)}",
            "where fair_partitions had more, a worker with -Q and these queues, until they are"
            " empty; where fair_dead_letters was another, fair dead-letters with that name",
        )


def _former(
    connection: Any, settings: Settings, queues: Collection[str]
) -> Iterator[tuple[str, int]]:
    """Yield names, and how many wait; partitions up to one that is not there, if that is told."""
    parts = settings.partitioned
    names = {*queues, *parts}.difference(*(each.queues for each in parts.values()))
    for name in sorted(names):
        first = parts[name].count if name in parts else 0
        for number in range(first, first + min(_PARTITIONS, _MOST // len(names))):
            depths = depths_of(connection, [f"{name}.{number}"], ())
            if not depths:
                break
            yield from depths.items()
    yield from depths_of(connection, [Settings().dead_letters], ()).items()
