"""A group as JSON, and back."""

import json
from dataclasses import asdict

from celery_fair.core.groups.membership import Grant, Group

_VERSION = 1
_SETS = ("active", "out")


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
