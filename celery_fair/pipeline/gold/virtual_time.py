"""What was due to each of those who share something, while a set of them had work.

While a set B has work, member i is due the part ``w_i / Σ_{j∈B} w_j`` of what is served. The set
changes all the time; what is due over a longer time is the sum of what was due while each set
lasted. Let, at each start of an amount r,

    V grow by r / Σ_{j∈B} w_j        W grow by r

V is the virtual time of fair queueing (Demers, Keshav & Shenker, "Analysis and simulation of a fair
queueing algorithm", 1989; Parekh & Gallager, 1993). Over a time in which i has work throughout it
is due ``w_i ΔV`` out of ``ΔW``. Starts count only while at least two have work: one that is alone
gets everything whatever its weight.

What may be owed
----------------
While i and j both have work throughout, a fair scheduler owes one of them no more than a bound b
per unit of weight: ``|S_i/w_i - S_j/w_j| <= b``. If one of them runs out and comes back, what it
was owed is forgotten, and the next time begins anew: over n such times it is n b. Those of i and j
are at most ``n_i + n_j - 1``, with n the times in which each had work. What i is due is a mean over
all j, by their weights. So

    |S_i - w_i ΔV| <= w_i b (n_i + Σ w_j n_j / Σ w_j - 1)

`times` is what stands in the brackets, not below 1.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

__all__ = ["shares"]

_COUNTED = (("got", "amount"), ("took", "seconds"), ("charged", "charge"))
"""What is summed up of a start while others have work, too."""


def shares(
    pieces: DataFrame,
    starts: DataFrame,
    among: Sequence[str],
    member: Sequence[str],
    inclusive: bool = False,
) -> DataFrame:
    """Return what each member got and was due while it had work and others had some, too.

    Arguments:
        pieces: times in which a member had work: `among` and `member`, `from`, `to`, `weight`.
        starts: what was served in such times: the same names, `from`, and `amount`, `charge`,
            `seconds`, `slots`.
        among: what names those who share.
        member: what names one of them.
        inclusive: whether a piece has its end, and so a start at that moment.

    Columns: `served`, `due` and `total`, ΔW, in what amounts are in; `seconds`, those of what was
    served; `total_seconds`; `weight`; and what the bound is made of, `charged`, `longest`, `slots`
    and `times`.
    """
    whose = [*among, *member]
    begins, ends = (0, 2) if inclusive else (1, 0)
    steps = _steps(pieces, whose, begins, ends).unionByName(
        starts.select(
            *whose,
            F.col("from").alias("at"),
            F.lit(1 if inclusive else 2).alias("turn"),
            "amount",
            "charge",
            "seconds",
            "slots",
        ),
        allowMissingColumns=True,
    )
    so_far = (
        Window.partitionBy(*among)
        .orderBy("at", "turn")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    contended = F.col("amount").isNotNull() & (F.sum("step").over(so_far) >= 2)
    return (
        steps.withColumn("weights", F.sum(F.col("step") * F.col("weight")).over(so_far))
        .withColumns({name: F.when(contended, F.col(of)).otherwise(0.0) for name, of in _COUNTED})
        .withColumn("v", F.sum(F.when(F.col("got") > 0, F.expr("got / weights"))).over(so_far))
        .withColumns({"w": F.sum("got").over(so_far), "s": F.sum("took").over(so_far)})
        .groupBy(*whose)
        .agg(*_sums())
        .where("total > 0")
        .withColumn("times", F.greatest(F.col("pieces") + _mean_pieces(among) - 1, F.lit(1.0)))
        .drop("pieces")
    )


def _steps(pieces: DataFrame, whose: Sequence[str], begins: int, ends: int) -> DataFrame:
    """Two rows for each piece: +1 where it begins, -1 where it ends."""
    both = F.array(
        F.struct(F.col("from").alias("at"), F.lit(1).alias("step"), F.lit(begins).alias("turn")),
        F.struct(F.col("to").alias("at"), F.lit(-1).alias("step"), F.lit(ends).alias("turn")),
    )
    return pieces.withColumn("end", F.explode(both)).select(*whose, "end.*", "weight")


def _sums() -> list[Column]:
    v = F.coalesce("v", F.lit(0.0))
    return [
        F.sum("got").alias("served"),
        F.sum("took").alias("seconds"),
        F.sum("charged").alias("charged"),
        F.max("got").alias("longest"),
        F.max("slots").alias("slots"),
        (-F.sum(F.col("step") * F.col("weight") * v)).alias("due"),
        (-F.sum(F.col("step") * F.col("w"))).alias("total"),
        (-F.sum(F.col("step") * F.col("s"))).alias("total_seconds"),
        F.max("weight").alias("weight"),
        F.count_if(F.col("step") == 1).alias("pieces"),
    ]


def _mean_pieces(among: Sequence[str]) -> Column:
    every = Window.partitionBy(*among)
    weighed = F.sum(F.col("weight") * F.col("pieces")).over(every)
    return weighed / F.sum("weight").over(every)
