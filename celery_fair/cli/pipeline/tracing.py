"""Where a trace comes from: the options of the commands that replay one."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from celery_fair.cli.options import NUMBER, Named
from celery_fair.cli.pipeline.context import with_options
from celery_fair.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from celery_fair.cli.pipeline.context import Context
    from celery_fair.pipeline.replay.scenario import Scenario

F = TypeVar("F", bound=Callable[..., Any])


class Source(NamedTuple):
    """A warehouse, and what of it."""

    path: Path
    since: float | None
    until: float | None
    base: str

    def read(self, context: "Context") -> tuple["DataFrame", "Scenario"]:
        """Return the trace, and the scenario that everything is compared with.

        That is the one it was recorded under, as far as that is known, changed by ``--base``.
        """
        from celery_fair.pipeline.replay.fanout import refuse_absent
        from celery_fair.pipeline.replay.scenario import Scenario, parse_scenario
        from celery_fair.pipeline.traces.recorded import recorded_scenario, recorded_trace

        base = f"recorded: {self.base}"
        parse_scenario(base, Scenario("recorded"))  # before Spark starts for what is mistyped
        warehouse = context.warehouse(self.path)
        attempts = warehouse.table("attempts")
        recorded = recorded_scenario(warehouse.table("events"), attempts)
        trace = self._cut(recorded_trace(attempts, warehouse.table("processes"), recorded))
        scenario = parse_scenario(base, recorded)
        refuse_absent([base], trace)
        return trace, scenario

    def _cut(self, trace: "DataFrame") -> "DataFrame":
        from pyspark.sql.functions import col

        if self.since is not None:
            trace = trace.where(col("published") >= self.since)
        if self.until is not None:
            trace = trace.where(col("published") < self.until)
        trace = trace.cache()
        if trace.isEmpty():
            if (self.since, self.until) == (None, None):
                raise PipelineError(f"{self.path} has no message that could be replayed")
            raise PipelineError(f"no message was published {self._when()}: name another time")
        return trace

    def check(self) -> None:
        """Refuse what cannot be read, before Spark starts."""
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise click.UsageError(
                f"--since {_plain(self.since)} is not before --until {_plain(self.until)}, and so"
                " no message is between them: exchange them, or name another time"
            )

    def _when(self) -> str:
        """In words, which time is looked at."""
        since = "" if self.since is None else f"at {_plain(self.since)} or later"
        until = "" if self.until is None else f"before {_plain(self.until)}"
        return " and ".join(filter(None, (since, until)))


def _plain(seconds: float) -> str:
    """As it was given, or nearly so."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


_OPTIONS = (
    click.argument("path", metavar="WAREHOUSE", type=Named(path_type=Path)),
    click.option(
        "--since",
        metavar="SECONDS",
        type=NUMBER,
        help="Leave out what was published before this time, in seconds since 1970 (or as the"
        " trace counts).",
    ),
    click.option(
        "--until",
        metavar="SECONDS",
        type=NUMBER,
        help="Leave out what was published at this time or later.",
    ),
    click.option(
        "--base",
        metavar="'CHANGE …'",
        default="",
        show_default=False,
        help="What is supposed in all scenarios, such as 'concurrency=2 mail.quantum=4'; the"
        " changes are those of whatif --help.",
    ),
)


def on_trace(command: F) -> F:
    """Give a command the argument WAREHOUSE and the options that say how to read it."""

    @wraps(command)
    def wrapped(**options: Any) -> Any:
        source = Source(**{name: options.pop(name) for name in Source._fields})
        source.check()
        return command(source=source, **options)

    return with_options(wrapped, _OPTIONS)  # type: ignore[return-value]
