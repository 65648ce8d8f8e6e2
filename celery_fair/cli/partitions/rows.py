"""What is known of each partition, as data and as words."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from celery_fair.core.membership import Grant, Group

__all__ = ["HEADS", "by_number", "rows_of", "words_of"]

HEADS = ["partition", "group", "owner", "next", "token", "since", "waiting"]


def rows_of(name: str, group: Group, depths: Mapping[str, int | None]) -> Iterator[dict[str, Any]]:
    """Return a row for each of a group's partitions, by number.

    Arguments:
        depths: how many messages wait for which, as far as that is known.
    """
    for partition in sorted(group.partitions, key=by_number):
        grant, planned = group.grants.get(partition, Grant()), group.plan.get(partition)
        yield {
            "partition": partition,
            "group": name,
            "owner": grant.owner,
            "next": None if planned == grant.owner else planned,
            "token": grant.token,
            "since": grant.since,
            "waiting": depths.get(partition),
            "removed": partition in group.out,
        }


def by_number(partition: str) -> tuple[str, int, str]:
    """Return what puts ``customers.10`` behind ``customers.9``."""
    queue, _, number = partition.rpartition(".")
    return queue, len(number), number


def words_of(row: Mapping[str, Any]) -> list[str]:
    """Return a row's cells."""
    since = datetime.fromtimestamp(row["since"], UTC).strftime("%Y-%m-%d %H:%M:%S")
    said = {
        **row,
        "owner": row["owner"] or "-",
        "next": "removed" if row["removed"] else row["next"] or "-",
        "since": since if row["since"] else "-",
        "waiting": "?" if row["waiting"] is None else row["waiting"],
    }
    return [str(said[name]) for name in HEADS]
