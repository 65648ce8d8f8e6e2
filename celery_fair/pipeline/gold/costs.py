"""Gold: what a message of each cost key takes, and how far to believe it.

The mean run time of a key with few runs says little; that of its task says a little about every
key. Between them stands the linear estimator of least squared error (Bühlmann, "Experience rating
and credibility", 1967; with unequal counts Bühlmann & Straub, 1970), an empirical Bayes estimate:
with n_k runs x of key k, m_k their mean, and of the task N = Σ n_k runs, K keys, mean m,

    estimate_k = z_k m_k + (1 - z_k) m,      z_k = n_k / (n_k + within / between)

    within  = Σ_k Σ (x - m_k)² / (N - K)                          variance of runs of one key
    between = (Σ_k n_k (m_k - m)² - (K - 1) within) / (N - Σ_k n_k² / N)     variance of the means

`between` is estimated without bias and may come out below zero: then the keys tell nothing apart,
and z is 0. If no key has two runs, `within` is unknown, and so is everything but m.

Means, never medians: deficit round robin equalises sums.
"""

from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from celery_fair.core.pricing import MODEL_FORMAT
from celery_fair.pipeline.gold.keys import keyed, top
from celery_fair.pipeline.silver.clocks import LONGEST

KEYS = 10_000
"""Cost keys that a model has at the most."""

_RAN = f"runtime between 0 and {LONGEST}"


def costs(attempts: DataFrame) -> DataFrame:
    """One row per task and cost key; what has no key goes under the key that is null."""
    ran = attempts.where(_RAN).where("task is not null")
    by_key = ran.groupBy("task", "cost_key").agg(
        F.count("runtime").alias("n"),
        F.mean("runtime").alias("mean"),
        F.coalesce(F.var_pop("runtime") * F.count("runtime"), F.lit(0.0)).alias("squares"),
        F.sum("runtime").alias("seconds"),
    )
    return _shrunk(by_key).select(
        "task",
        "cost_key",
        "n",
        "mean",
        "estimate",
        F.col("z").alias("credibility"),
        "seconds",
        "task_n",
        "task_mean",
    )


def costs_by_key(attempts: DataFrame) -> DataFrame:
    """One row per queue and tenant, of those whose messages took most seconds."""
    ran = keyed(attempts).where(_RAN)
    by_key = ran.groupBy("queue", "tenant").agg(
        F.count("runtime").alias("n"),
        F.sum("runtime").alias("seconds"),
        F.sum("cost").alias("charged"),
        F.max("runtime").alias("longest"),
    )
    whole = F.sum("seconds").over(Window.partitionBy("queue"))
    made = by_key.select(
        "queue",
        "tenant",
        "n",
        F.expr("seconds / n").alias("mean"),
        "longest",
        "seconds",
        (F.col("seconds") / F.nullif(whole, F.lit(0.0))).alias("part_of_queue"),
        "charged",
    )
    return top(made, ("queue",), ("tenant",), F.col("seconds"))


def _shrunk(by_key: DataFrame) -> DataFrame:
    task = Window.partitionBy("task")
    deviation = F.col("n") * (F.col("mean") - F.col("task_mean")) ** 2
    return (
        by_key.withColumn("task_n", F.sum("n").over(task))
        .withColumn("task_mean", F.sum("seconds").over(task) / F.col("task_n"))
        .withColumn("keys", F.count(F.lit(1)).over(task))
        .withColumn("task_squares", F.sum("squares").over(task))
        .withColumn("across", F.sum(deviation).over(task))
        .withColumn("sizes", F.sum(F.col("n") ** 2).over(task))
        .withColumn("within", F.expr("if(task_n > keys, task_squares / (task_n - keys), null)"))
        .withColumn("between", _between())
        .withColumn("z", _credibility())
        .withColumn("estimate", F.expr("z * mean + (1 - z) * task_mean"))
    )


def _between() -> Column:
    spread = F.expr("across - (keys - 1) * within")
    return spread / F.nullif(F.expr("task_n - sizes / task_n"), F.lit(0.0))


def _credibility() -> Column:
    z = F.expr("n / (n + within / between)")
    return F.when(F.coalesce(F.col("between"), F.lit(0.0)) > 0, z).otherwise(0.0)


def model(made: DataFrame) -> dict[str, Any]:
    """Return the table as the worker loads it, with the `KEYS` keys that have most runs."""
    tasks = made.groupBy("task").agg(F.max("task_mean").alias("mean"), F.max("task_n").alias("n"))
    most = made.where("cost_key is not null").orderBy(F.desc("n"), "task", "cost_key").limit(KEYS)
    by_task: dict[str, dict[str, dict[str, float]]] = {}
    for row in most.collect():
        entry = {"mean": row["estimate"], "n": row["n"]}
        by_task.setdefault(row["task"], {})[row["cost_key"]] = entry
    return {
        "v": MODEL_FORMAT,
        "tasks": {row["task"]: {"mean": row["mean"], "n": row["n"]} for row in tasks.collect()},
        "keys": by_task,
    }
