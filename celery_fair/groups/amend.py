"""Changing a group from outside: read, then write; again if somebody else wrote in between."""

from collections.abc import Callable

from celery_fair.core.groups.membership import Group
from celery_fair.groups import GroupStore, StoreUnreachableError
from celery_fair.groups.document import decoded, encoded

_ATTEMPTS = 100


def amend(store: GroupStore, name: str, change: Callable[[Group], Group]) -> tuple[Group, Group]:
    """Write what `change` makes of a group; return the group before and after.

    Raises:
        StoreUnreachableError: the store does not answer, or others write all the time.
        ValueError: the document is of another version.
    """
    for _ in range(_ATTEMPTS):
        snapshot = store.read(name)
        before = decoded(snapshot.text)
        after = change(before)
        if after == before or store.write(name, snapshot.version, encoded(after)):
            return before, after
    raise StoreUnreachableError(
        f"others have written group {name!r} {_ATTEMPTS} times while it was read"
    )
