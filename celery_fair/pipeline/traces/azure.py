"""The Azure LLM inference traces (Patel et al., "Splitwise", ISCA 2024).

Each line is a request: when it came, how many tokens it read and how many it wrote. The traces do
not say for how long it ran. Reading goes in parallel and is nearly free, writing goes a token at a
time; so its run time is taken to be linear in both. The default rates are of the order that the
paper measures for a model of 70 billion parameters.

The file's name says which service it is of: ``AzureLLMInferenceTrace_code.csv`` is queue `code`.
The cost key is the length of what was read, to a power of two: that much is known beforehand.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.pipeline.traces.left_out import Tell, first_of, is_finite, messages, unread

__all__ = ["azure_trace"]

SECONDS_READ = 0.0002
SECONDS_WRITTEN = 0.03
_TIME = "yyyy-MM-dd HH:mm:ss.SSSSSSS"


def azure_trace(
    spark: SparkSession,
    path: str,
    read: float = SECONDS_READ,
    written: float = SECONDS_WRITTEN,
    tell: Tell | None = None,
) -> DataFrame:
    """Requests as messages.

    Arguments:
        read: seconds per token that is read.
        written: seconds per token that is written.
        tell: see `celery_fair.pipeline.traces.left_out.messages`.

    Raises:
        PipelineError: no request can be read.
    """
    schema = "TIMESTAMP string, ContextTokens long, GeneratedTokens long"
    requests = spark.read.schema(schema).option("header", True).csv(path)
    name = F.regexp_extract(F.col("_metadata.file_name"), r"_([^_.]+)\.csv", 1)
    at = F.try_to_timestamp(F.col("TIMESTAMP"), F.lit(_TIME))
    runtime = F.col("ContextTokens") * read + F.col("GeneratedTokens") * written
    size = F.ceil(F.log2(F.greatest("ContextTokens", F.lit(1)))).cast("string")
    published = F.unix_micros(at) / 1e6
    marked = requests.select(
        F.concat_ws("-", name, "TIMESTAMP", "ContextTokens", "GeneratedTokens").alias("id"),
        name.alias("queue"),
        F.lit("inference").alias("task"),
        F.concat(F.lit("2^"), size).alias("cost_key"),
        published.alias("published"),
        runtime.alias("runtime"),
        *first_of(
            unread("published", is_finite(published), F.col("TIMESTAMP"), "TIMESTAMP", "time"),
            *(
                unread("runtime", F.col(name) >= 0, F.col(name), name, "number of tokens")
                for name in ("ContextTokens", "GeneratedTokens")
            ),
        ),
    )
    return messages(marked, tell)
