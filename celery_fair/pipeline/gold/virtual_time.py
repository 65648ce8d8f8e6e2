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

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

_COUNTED = {"got": "amount", "took": "seconds", "charged": "charge"}
"""What is summed up of a start while others have work, too."""


def shares(
    pieces: DataFrame,
    starts: DataFrame,
    among: Sequence[str],
    member: Sequence[str],
    views: Mapping[str, Column],
    besides: Sequence[Column],
    inclusive: bool = False,
) -> DataFrame:
    """Return what each member got and was due while it had work and others had some, too.

    Arguments:
        pieces: times in which a member had work: `among` and `member`, `from`, `to`, `weight`.
        starts: what was served in such times: the same names, `from`, and `amount`, `charge`,
            `seconds`, `slots`.
        among: what names those who share.
        member: what names one of them.
        views: in what senses a member has work; each says of which pieces and starts it is, by
            columns that both have. All are looked at at once, as sorting takes longest.
        besides: aggregates of columns that only pieces have.
        inclusive: whether a piece has its end, and so a start at that moment.

    Columns: a row for each member that had a piece, with its greatest weight, `weighs`, and what
    was asked for besides. For each view, with whose name theirs end, `served`, `due` and `total`,
    ΔW, in what amounts are in; `seconds`, those of what was served; `total_seconds`; `weight`; and
    what the bound is made of, `charged`, `longest`, `slots` and `times`. These are null where
    nothing was served while others had work, too.
    """
    whose = [*among, *member]
    served = starts.withColumnRenamed("from", "at")
    served = served.withColumn("turn", F.lit(1 if inclusive else 2))
    once = [name for name in pieces.columns if name not in {*starts.columns, "to", "weight"}]
    steps = _steps(pieces, once, *((0, 2) if inclusive else (1, 0)))
    rows = steps.unionByName(served, allowMissingColumns=True)
    so_far = (
        Window.partitionBy(*among)
        .orderBy("at", "turn")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    each = [_View(name, has_work, so_far) for name, has_work in views.items()]
    for made in (_View.steps, _View.members, _View.counted, _View.grown):
        rows = rows.withColumns({k: v for view in each for k, v in made(view).items()})
    summed = (
        rows.groupBy(*whose)
        .agg(
            F.max("weight").alias("weighs"),
            *(column.alias(name) for view in each for name, column in view.sums().items()),
            *besides,
        )
        .where("weighs is not null")
    )
    for made in (_View.known, partial(_View.times, group=Window.partitionBy(*among))):
        summed = summed.withColumns({k: v for view in each for k, v in made(view).items()})
    return summed.drop(*(f"pieces{view}" for view in views))


def _steps(pieces: DataFrame, once: Sequence[str], begins: int, ends: int) -> DataFrame:
    """Two rows for each piece: +1 where it begins, -1 where it ends.

    Arguments:
        once: columns that only the first of them has, so that sums have them once.
    """
    both = F.array(
        F.struct(F.col("from").alias("at"), F.lit(1).alias("step"), F.lit(begins).alias("turn")),
        F.struct(F.col("to").alias("at"), F.lit(-1).alias("step"), F.lit(ends).alias("turn")),
    )
    steps = pieces.withColumn("end", F.explode(both)).drop("from", "to").select("*", "end.*")
    return steps.withColumns({name: F.when(F.col("step") == 1, F.col(name)) for name in once})


class _View:
    """A sense in which members have work: the columns of one, which end with its name."""

    def __init__(self, name: str, has_work: Column, so_far: WindowSpec) -> None:
        self._name, self._has_work, self._so_far = name, has_work, so_far

    def _of(self, column: str) -> Column:
        return F.col(f"{column}{self._name}")

    def _named(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        return {f"{name}{self._name}": column for name, column in columns.items()}

    # Of each row --------------------------------------------------------------

    def steps(self) -> dict[str, Column]:
        return self._named({"step": F.when(self._has_work, F.col("step"))})

    def members(self) -> dict[str, Column]:
        """How many members have work, and their weights together."""
        step = self._of("step")
        sums = {"members": step, "weights": step * F.col("weight")}
        return self._named({name: F.sum(each).over(self._so_far) for name, each in sums.items()})

    def counted(self) -> dict[str, Column]:
        contended = self._has_work & F.col("amount").isNotNull() & (self._of("members") >= 2)
        return self._named(
            {name: F.when(contended, F.col(of)).otherwise(0.0) for name, of in _COUNTED.items()}
        )

    def grown(self) -> dict[str, Column]:
        """V, W and the seconds of it, so far."""
        got = self._of("got")
        sums = {"v": F.when(got > 0, got / self._of("weights")), "w": got, "s": self._of("took")}
        return self._named({name: F.sum(each).over(self._so_far) for name, each in sums.items()})

    # Of each member -----------------------------------------------------------

    def sums(self) -> dict[str, Column]:
        step, weight = self._of("step"), F.col("weight")
        v = F.coalesce(self._of("v"), F.lit(0.0))
        return self._named(
            {
                "served": F.sum(self._of("got")),
                "seconds": F.sum(self._of("took")),
                "charged": F.sum(self._of("charged")),
                "longest": F.max(self._of("got")),
                "slots": F.max(F.when(self._has_work, F.col("slots"))),
                "due": -F.sum(step * weight * v),
                "total": -F.sum(step * self._of("w")),
                "total_seconds": 0.0 - F.sum(step * self._of("s")),
                "weight": F.max(F.when(self._has_work, weight)),
                "pieces": F.count_if(step == 1),
            }
        )

    def known(self) -> dict[str, Column]:
        """What there was if there was anything to share, and anybody to share it with."""
        shared = self._of("total") > 0
        return {name: F.when(shared, F.col(name)) for name in self.sums()}

    def times(self, group: WindowSpec) -> dict[str, Column]:
        weight, pieces = self._of("weight"), self._of("pieces")
        mean = F.sum(weight * pieces).over(group) / F.sum(weight).over(group)
        times = F.greatest(pieces + mean - 1, F.lit(1.0))
        return self._named({"times": F.when(pieces.isNotNull(), times)})
