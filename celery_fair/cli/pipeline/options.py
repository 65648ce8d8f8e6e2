"""What all pipeline commands take, and how they end."""

import re
import signal
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from celery_fair.cli.options import (
    NUMBER,
    SECONDS,
    Local,
    Outcome,
    conclude,
    json_option,
    table,
)
from celery_fair.cli.pipeline.context import Context
from celery_fair.pipeline.storage.address import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "PLACE",
    "Place",
    "by_key_option",
    "on_warehouse",
    "one_writer_option",
    "percent",
    "premises",
    "tabled",
    "with_spark",
]

_PACKAGES = ("pandas", "py4j", "pyarrow", "pyspark")  # the extra's

_OPTIONS = {"spark.master": "--master", "spark.driver.memory": "--driver-memory"}
"""Settings that have an option."""

_BITS = {"m": 20, "g": 30, "t": 40}
_LEAST_MEMORY = 512 << 20

F = TypeVar("F", bound=Callable[..., Any])


class Place(Local):
    """A path of this machine, or a URI of a file system that Spark reads, as it was given."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and is_remote(value):
            return value
        return super().convert(value, param, ctx)


PLACE = Place(file_okay=False, path_type=Path)


def _settings(_ctx: click.Context, _param: click.Parameter, words: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value or not key.startswith("spark."):
            hint = f"; Hadoop's is spark.hadoop.{key}=…" if key.startswith("fs.") else ""
            raise click.BadParameter(  # without the value, which may be a secret
                f"{key!r} is no setting of Spark's, which is written like"
                f" spark.sql.shuffle.partitions=64{hint}"
            )
        if key in _OPTIONS:
            raise click.BadParameter(f"{key!r} is given by {_OPTIONS[key]}: use that")
        if key in found:
            raise click.BadParameter(f"{key!r} is given twice; give each setting once")
        found[key] = value
    return found


def _memory(_ctx: click.Context, _param: click.Parameter, word: str) -> str:
    """A size as Java takes it, with which Spark starts."""
    from celery_fair.pipeline.doctor import memory_here

    found = re.fullmatch(r"(\d+)([mgt])b?", word.lower())
    if found is None:
        raise click.BadParameter(f"{word!r} is no size such as 4g or 1500m")
    size = int(found[1]) << _BITS[found[2]]
    if size < _LEAST_MEMORY:
        raise click.BadParameter(f"{word!r} is less than Spark starts with, 512m")
    if (total := memory_here()) and size > total:
        raise click.BadParameter(f"{word!r} is more than this machine has, {total >> 20}m")
    return f"{found[1]}{found[2]}"


def with_spark(command: F) -> F:
    """Give a command a `Context`; print its outcome, or the message of a `PipelineError`."""

    @click.option(
        "--master",
        metavar="URL",
        help="Spark's master, such as spark://host:7077.  [default: all cores of this machine]",
    )
    @click.option(
        "--driver-memory",
        "memory",
        metavar="SIZE",
        callback=_memory,
        default="1g",
        help="Memory of the driver; without --master, for everything.",
    )
    @click.option(
        "--conf",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_settings,
        help="A setting of Spark's own, such as spark.local.dir=/mnt/fast. May be given again.",
    )
    @json_option("Print the result as JSON.")
    @click.option("-q", "--quiet", is_flag=True, help="Tell no progress.")
    @wraps(command)
    def wrapped(
        *args: Any,
        master: str | None,
        memory: str,
        conf: dict[str, str],
        as_json: bool,
        quiet: bool,
        **options: Any,
    ) -> Any:
        from celery_fair.pipeline.errors import PipelineError, RefusedError

        context = Context(master, memory, conf, as_json, quiet)
        try:
            found = command(context, *args, **options)
            if found is not None:
                conclude(found, as_json)
        except KeyboardInterrupt:
            click.echo("Aborted!", err=True)
            click.get_current_context().exit(128 + signal.SIGINT)
        except ModuleNotFoundError as exc:
            if str(exc.name).partition(".")[0] not in _PACKAGES:
                raise
            raise click.ClickException(f"{exc}: pip install celery-fair[spark]") from exc
        except PipelineError as exc:
            kind = click.UsageError if isinstance(exc, RefusedError) else click.ClickException
            raise kind(str(exc)) from exc
        except OSError as exc:  # a full disk, a folder that may not be written to, or Java is gone
            raise click.ClickException(_cause(exc)) from exc
        except Exception as exc:  # Spark's errors have no common class; others are re-raised
            if not type(exc).__module__.startswith(("pyspark.", "py4j.")):
                raise
            raise click.ClickException(
                f"Spark failed: {_cause(exc, context.of_warehouse)}"
            ) from exc

    return wrapped  # type: ignore[return-value]


def _cause(exc: Exception, of_warehouse: bool = True) -> str:
    from celery_fair.pipeline.errors import root_cause
    from celery_fair.pipeline.session import memory_ran_out

    said = memory_ran_out()
    return root_cause(RuntimeError(said) if said else exc, of_warehouse=of_warehouse)


def one_writer_option(command: F) -> F:
    """Give a command, that has a `Context`, the option ``--one-writer``."""

    @click.option(
        "--one-writer",
        is_flag=True,
        help="No other command writes to the warehouse meanwhile; for file systems without locks.",
    )
    @wraps(command)
    def wrapped(context: Context, *args: Any, one_writer: bool, **options: Any) -> Any:
        context.publishes = True
        if one_writer:
            context.one_writer()
        return command(context, *args, **options)

    return wrapped  # type: ignore[return-value]


def _tables_option(command: F) -> F:
    @click.option(
        "--tables-in",
        metavar="CATALOG.SCHEMA",
        help="Make what is published a table of this catalog, too, such as lake.fair.",
    )
    @wraps(command)
    def wrapped(context: Context, *args: Any, tables_in: str | None, **options: Any) -> Any:
        if tables_in is not None:
            context.tables_in(tables_in)
        return command(context, *args, **options)

    return wrapped  # type: ignore[return-value]


def on_warehouse(command: F) -> F:
    """Give a command the argument WAREHOUSE besides, and what it needs to publish there."""
    command = click.argument("warehouse", type=PLACE)(command)
    return with_spark(one_writer_option(_tables_option(command)))


def by_key_option(text: str) -> Callable[[F], F]:
    """Give a command the option ``--by``, which is "queue" or "key"."""
    kinds = click.Choice(["queue", "key"])
    return click.option("--by", type=kinds, default="queue", show_default=True, help=text)


def premises(command: F) -> F:
    """Give a command the options that say what an audit may rest on."""
    since = click.option(
        "--complete-since",
        metavar="SECONDS",
        type=NUMBER,
        help="Since when every worker has written its log, in seconds since 1970.",
    )
    within = click.option(
        "--redelivered-within",
        metavar="SECONDS",
        type=SECONDS,
        help="How long after its start a message may be delivered again.  [default: any time]",
    )
    return since(within(command))


def percent(part: float | None, form: str = ".2%") -> str | None:
    """Return a part of a whole as it is read; None if it is not known."""
    return None if part is None else format(part, form)


def tabled(frame: "DataFrame", names: Sequence[str], empty: str) -> Outcome:
    """Return the rows of a frame, and these columns of them for a reader."""
    rows = [row.asDict() for row in frame.collect()]
    return Outcome(rows, table(names, ([row[name] for name in names] for row in rows), empty))
