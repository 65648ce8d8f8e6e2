"""The event log's schema as Spark's; `celery_fair.eventlog.records` is where it is written down."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from celery_fair.eventlog.records import FIELDS, KINDS

__all__ = ["MICROSECONDS", "RECORD", "in_seconds"]

_TYPES: Final[dict[str, DataType]] = {
    "string": StringType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "map<string,double>": MapType(StringType(), DoubleType()),
    "microseconds": DoubleType(),  # exact up to the year 2255, and seconds from bronze on
}


def _types() -> dict[str, str]:
    types: dict[str, str] = {}
    for fields in (FIELDS, *KINDS.values()):
        for name, (kind, _) in fields.items():
            if types.setdefault(name, kind) != kind:
                raise ValueError(
                    f"field {name!r} is {types[name]} in one kind and {kind} in another"
                )
    return types


RECORD: Final = StructType([StructField(name, _TYPES[kind]) for name, kind in _types().items()])
"""Every field of every kind, once; a record has null in those that are not its kind's."""

MICROSECONDS: Final = [name for name, kind in _types().items() if kind == "microseconds"]
"""The fields that are seconds in every table."""


def in_seconds(record: Column) -> list[Column]:
    """Return a record's fields, whose times and durations are in microseconds."""
    return [
        (record[name] / 1e6 if name in MICROSECONDS else record[name]).alias(name)
        for name in RECORD.names
    ]
