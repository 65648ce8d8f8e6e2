"""A setting is written once, as a field of a dataclass: ``group_lease: Seconds = 60.0``.

That says its name, its check (`Seconds` is a float that is annotated with one) and its default; the
text below it is the documentation's sentence about it. A field without a check is no setting.
"""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple, get_type_hints

from celery.exceptions import ImproperlyConfigured

from celery_fair.settings.values import Check

_ABSENT = object()


class Entry(NamedTuple):
    """One setting, or one option of a queue."""

    field: str  # as the class has it, which is seldom another than what the user writes
    check: Check  # what its value must pass


@cache
def table(kind: Any) -> Mapping[str, Entry]:
    """Return the settings that are the fields of a dataclass, by name, as the user writes it."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        each.metadata.get("name", each.name): Entry(each.name, check)
        for each in fields(kind)
        for check in getattr(hints[each.name], "__metadata__", ())
    }


def from_conf(kind: type, prefix: str, conf: Any) -> dict[str, Any]:
    """Return the checked fields of a class that an app's configuration has under a prefix."""
    values = {}
    for name, entry in table(kind).items():
        value = conf.get(prefix + name, _ABSENT)
        if value is not _ABSENT:
            values[entry.field] = entry.check(prefix + name, value)
    return values


def from_options(kind: type, where: str, options: Any) -> dict[str, Any]:
    """Return the checked fields of a class that options have.

    Raises:
        celery.exceptions.ImproperlyConfigured: they are no mapping, or one of them is not known.
    """
    known = table(kind)
    there = ", ".join(sorted(known))
    if not isinstance(options, Mapping):
        raise ImproperlyConfigured(
            f"{where} must be a mapping of options ({there}), not {options!r}"
        )
    for name in options:
        if name not in known:
            raise ImproperlyConfigured(f"{where}: unknown option {name!r}; there are: {there}")
    return {
        known[name].field: known[name].check(f"{where}[{name!r}]", value)
        for name, value in options.items()
    }
