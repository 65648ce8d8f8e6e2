"""The most of many, and the rest as one: keys may be as many as messages."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

__all__ = ["TOP", "top"]

TOP = 1000
"""Keys that have a row of their own."""


def top(
    rows: DataFrame,
    among: Sequence[str],
    names: Sequence[str],
    most_of: Column,
    rest: Mapping[str, Column],
    most: int = TOP,
) -> DataFrame:
    """Return a row for each of the first, and one for the others, whose names are null.

    Arguments:
        rows: one for each that `among` and `names` name.
        among: what has its own first ones.
        most_of: what the first have the most of.
        rest: the other columns, of one row or of many; `keys` is how many they are.
    """
    order = Window.partitionBy(*among).orderBy(most_of.desc(), *names)
    first = F.col("place") <= most
    named = {name: F.when(first, F.col(name)) for name in names}
    return (
        rows.withColumn("place", F.row_number().over(order))
        .withColumns(named)
        .groupBy(*among, *names)
        .agg(F.count(F.lit(1)).alias("keys"), *(each.alias(name) for name, each in rest.items()))
    )
