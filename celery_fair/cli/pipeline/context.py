"""What pipeline commands are given: a session, a warehouse, where to say things; how they end."""

import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from celery_fair.cli.options import FOLDER, NUMBER, SECONDS, Outcome, conclude, json_option, table
from celery_fair.pipeline.cells import cell, columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from celery_fair.pipeline.session import Work
    from celery_fair.pipeline.warehouse import Warehouse

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGES = ("jinja2", "pandas", "py4j", "pyarrow", "pyspark")  # the extra's


@dataclass
class Context:
    """What a command is given: a warehouse when it asks for one, and where to say things.

    Attributes:
        master: the cluster's URL, or None.
        memory: the driver's.
        conf: further settings of Spark's.
        as_json: whether the result is printed as JSON.
        quiet: whether progress is not told.
    """

    master: str | None
    memory: str
    conf: dict[str, str]
    as_json: bool
    quiet: bool

    def say(self, what: str) -> None:
        """Tell on stderr what is being done."""
        if not self.quiet:
            click.echo(f"{what} …", err=True)

    def warehouse(self, where: Path, logs: Path | None = None) -> "Warehouse":
        """Return the warehouse in a folder, in a session that starts now.

        Arguments:
            logs: the folder that is to be read into it; None: there is none.
        """
        from celery_fair.pipeline.session import open_session
        from celery_fair.pipeline.warehouse import Warehouse

        if logs is None:
            _see_to_it_that_there_is_one(where)
        self.say("starting Spark")
        return Warehouse(
            open_session(self.master, self.memory, self.conf, _work(where, logs)), where
        )


def _see_to_it_that_there_is_one(where: Path) -> None:
    """Before Spark is started for nothing."""
    from celery_fair.pipeline.errors import PipelineError
    from celery_fair.pipeline.warehouse import read_pointer

    if not read_pointer(where).tables:
        raise PipelineError(
            f"{where.absolute()} is no warehouse; fill one first: "
            "python -m celery_fair pipeline ingest LOGS WAREHOUSE"
        )


def _work(warehouse: Path, logs: Path | None) -> "Work":
    """How much there is to do.

    What was there before the last ingest is taken for read. It need not be, if that was of another
    folder: so a session for little work, which fails at much, is only for a log that is small.
    """
    from celery_fair.pipeline.session import LOG, WAREHOUSE, Work, work_below

    work = work_below(warehouse, WAREHOUSE)
    if logs is None:
        return work
    every = work_below(logs, LOG)
    if every is Work.LITTLE:
        return min(work, Work.SOME)  # of a large warehouse little is looked at
    read = None
    with suppress(FileNotFoundError):  # others may just publish
        runs = warehouse.glob("files/run=*")
        read = max((folder.stat().st_mtime for folder in runs), default=None)
    return max(Work.SOME, work_below(logs, LOG, since=read))


# Options ----------------------------------------------------------------------


def _settings(_ctx: click.Context, _param: click.Parameter, words: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value or not key.startswith("spark."):
            raise click.BadParameter(  # without the value, which may be a secret
                f"{key!r} is no setting of Spark's, which is written like"
                " spark.sql.shuffle.partitions=64"
            )
        found[key] = value
    return found


def _memory(_ctx: click.Context, _param: click.Parameter, word: str) -> str:
    """A size as Java takes it, with which Spark starts."""
    if not re.fullmatch(r"[1-9]\d*[mgt]", word):
        raise click.BadParameter(f"{word!r} is no size such as 4g or 1500m")
    return word


def with_options(command: F, options: Iterable[Callable[[F], F]]) -> F:
    """Give a command these, in the order in which its help shows them."""
    for option in reversed(list(options)):
        command = option(command)
    return command


_SPARK = (
    click.option(
        "--master",
        metavar="URL",
        help="Spark's master, such as spark://host:7077.  [default: all cores of this machine]",
    ),
    click.option(
        "--driver-memory",
        "memory",
        metavar="SIZE",
        callback=_memory,
        default="1g",
        help="Memory of the driver; without --master, for everything.",
    ),
    click.option(
        "--conf",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_settings,
        help="A setting of Spark's own, such as spark.local.dir=/mnt/fast. May be given again.",
    ),
    json_option("Print the result as JSON."),
    click.option("-q", "--quiet", is_flag=True, help="Tell no progress."),
)


_PREMISES = (
    click.option(
        "--complete-since",
        metavar="SECONDS",
        type=NUMBER,
        help="Since when every worker has written its log, in seconds since 1970.",
    ),
    click.option(
        "--redelivered-within",
        metavar="SECONDS",
        type=SECONDS,
        help="How long after its start a message may be delivered again.  [default: any time]",
    ),
)

_OF_CONTEXT = ("master", "memory", "conf", "as_json", "quiet")


def with_spark(command: F) -> F:
    """Give a command a `Context`; print its outcome, or the message of a `PipelineError`."""

    @wraps(command)
    def wrapped(**options: Any) -> None:
        given = {name: options.pop(name) for name in _OF_CONTEXT if name in options}
        context = Context(**given)
        with _told_in_one_line():
            found = command(context, **options)
            if found is not None:
                conclude(found, context.as_json)

    return with_options(wrapped, _SPARK)  # type: ignore[return-value]


def on_warehouse(command: F) -> F:
    """Give a command the argument WAREHOUSE besides."""
    return with_spark(click.argument("warehouse", type=FOLDER)(command))


def premises(command: F) -> F:
    """Give a command the options that say what an audit may rest on."""
    return with_options(command, _PREMISES)


def by_key_option(text: str) -> Callable[[F], F]:
    """Give a command the option ``--by``, which is "queue" or "key"."""
    kinds = click.Choice(["queue", "key"])
    return click.option("--by", type=kinds, default="queue", show_default=True, help=text)


# Ends -------------------------------------------------------------------------


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    from celery_fair.pipeline.errors import PipelineError, RefusedError

    try:
        yield
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
        raise click.ClickException(f"Spark failed: {_cause(exc)}") from exc


def _cause(exc: Exception) -> str:
    from celery_fair.pipeline.errors import root_cause
    from celery_fair.pipeline.session import memory_ran_out

    said = memory_ran_out()
    return root_cause(RuntimeError(said) if said else exc)


Row = dict[str, Any]


def collected(frame: "DataFrame") -> list[Row]:
    """Return the rows of a frame, which are few."""
    return [row.asDict(recursive=True) for row in frame.collect()]


def laid_out(rows: Iterable[Row], text: str, empty: str) -> list[str]:
    """Return rows as lines for a reader, or `empty` where there are none.

    Arguments:
        text: their columns, see `celery_fair.pipeline.cells`.
    """
    heads, names = zip(*columns(text), strict=True)
    return list(table(heads, ([cell(row, name) for name in names] for row in rows), empty))


def tabled(frame: "DataFrame", text: str, empty: str) -> Outcome:
    """Return the rows of a frame, which are few; for a reader as `laid_out`."""
    rows = collected(frame)
    return Outcome(rows, laid_out(rows, text, empty))
