"""Rows of a trace of which no message can be made: how many, and why.

A reader marks each row with `field`, the one that cannot be read, and `why`, with the value; both
are null where all can. Counting the rows keeps those of the others for the replay, so that the file
is read once.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.errors import PipelineError

__all__ = ["Tell", "first_of", "is_finite", "messages", "unread"]

Tell = Callable[[str], None]
_MARKS = ("field", "why")
_SHOWN = 60


def messages(marked: DataFrame, tell: Tell | None) -> DataFrame:
    """Return the rows of which messages can be made.

    Arguments:
        tell: is told of the others; None: they are not counted.

    Raises:
        PipelineError: there are rows, and none of them can be read.
    """
    if tell is None:
        return _read(marked)
    marked = marked.cache()
    counted = marked.groupBy("field").agg(F.count(F.lit(1)), F.min("why")).collect()
    every = sum(count for _, count, _ in counted)
    left_out = sorted(f"{n:,} of {every:,} rows left out: {why}" for _, n, why in counted if why)
    if every and len(left_out) == len(counted):
        raise PipelineError(
            f"nothing of the trace can be read: {'; '.join(left_out)}; say what SOURCE is, and what"
            " its columns are, or mend it"
        )
    for line in left_out:
        tell(line)
    return _read(marked)


def _read(marked: DataFrame) -> DataFrame:
    return marked.where("field is null").drop(*_MARKS)


def first_of(*reasons: Column) -> list[Column]:
    """Return the marks of a row: the first reason that it has, of those made by `unread`."""
    reason = F.coalesce(*reasons)
    return [reason[name].alias(name) for name in _MARKS]


def unread(field: str, good: Column, value: Column, where: str, what: str) -> Column:
    """Return why a field cannot be read, or null if it can.

    Arguments:
        good: whether it can; null counts as no.
        value: what is there.
        where: the column, or whatever it is called.
        what: what it should have been, such as "time".
    """
    text = value.cast("string")
    shown = F.concat(F.lit("'"), F.left(text, F.lit(_SHOWN)), F.lit(f"' in {where} is no {what}"))
    why = F.coalesce(shown, F.lit(f"{where} is empty"))
    reason = F.struct(F.lit(field).alias("field"), why.alias("why"))
    return F.when(~F.coalesce(good, F.lit(False)), reason)


def is_finite(number: Column) -> Column:
    """Whether it is a number, and neither infinite nor NaN, which is above all others."""
    return F.abs(number) < F.lit(float("inf"))
