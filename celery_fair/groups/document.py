"""A group as JSON, and back; and how one is changed from outside."""

import json
from collections.abc import Callable
from dataclasses import asdict

from celery_fair.core.groups.membership import Grant, Group
from celery_fair.groups import GroupStore, StoreUnreachableError

_VERSION = 1
_SETS = ("active", "out")
_ATTEMPTS = 100


def encoded(group: Group) -> str:
    """Return the document of a group."""
    document = asdict(group) | {"v": _VERSION}
    document |= {name: sorted(document[name]) for name in _SETS}
    document["grants"] = {
        name: [grant.owner, grant.token, grant.since] for name, grant in group.grants.items()
    }
    return json.dumps(document, separators=(",", ":"))


def decoded(text: str | None) -> Group:
    """Return the group of a document; an empty one for None.

    Raises:
        ValueError: it is none, or of another version.
    """
    if text is None:
        return Group()
    document = json.loads(text)
    version = document.pop("v", None)
    if version != _VERSION:
        raise ValueError(f"the group's document has format {version!r}, this is for {_VERSION}")
    document |= {name: frozenset(document[name]) for name in _SETS}
    document["grants"] = {name: Grant(*grant) for name, grant in document["grants"].items()}
    return Group(**document)


def amend(store: GroupStore, name: str, change: Callable[[Group], Group]) -> tuple[Group, Group]:
    """Write what `change` makes of a group; return the group before and after.

    Read, then write; again if somebody else wrote in between.

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
