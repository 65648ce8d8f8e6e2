"""``fair web``: the page, its passwords, and the dashboard for Grafana."""

from contextlib import suppress
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from celery_fair.cli.groups import Group
from celery_fair.cli.interrupt import interruptible
from celery_fair.cli.options import Seconds, the_app
from celery_fair.operate.broker import connection_to
from celery_fair.settings import Settings

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=Group, invoke_without_command=True)
@click.option("--host", default="127.0.0.1", help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=5556, help="0 for a free one.")
@click.option("--allow-changes", is_flag=True, help="Let visitors change something.")
@click.option(
    "--may-change",
    metavar="NAME",
    multiple=True,
    help="With --allow-changes: let only these visitors; may be repeated.",
)
@click.option(
    "--passwords", metavar="FILE", type=_FILE, help="Let in who has a password of this file."
)
@click.option(
    "--proxy-header",
    metavar="HEADER",
    help="Let in whom a proxy names in this header, such as X-Forwarded-User.",
)
@click.option(
    "--proxy",
    metavar="ADDRESS",
    multiple=True,
    default=["127.0.0.1", "::1"],
    help="Believe --proxy-header from these addresses; may be repeated.",
)
@click.option(
    "--host-name",
    metavar="NAME",
    multiple=True,
    help="A name that browsers know this server by, besides its address; may be repeated.",
)
@click.option("--root-path", metavar="PATH", default="", help="The proxy's path to it: /fair.")
@click.option(
    "--action-log", metavar="FILE", type=_FILE, help="Write each change to the end of this."
)
@click.option(
    "--provable",
    metavar="FILE",
    type=_FILE,
    help="Dead letters that never started, by the event log: of pipeline audit --ids-out.",
)
@click.option(
    "--timeout",
    "-t",
    type=Seconds(0, 60, min_open=True),
    default=1.0,
    help="How long to wait for workers' answers.",
)
@click.pass_context
def web(ctx: click.Context, /, **given: Any) -> None:
    """Show workers, queues, keys, dead letters and partitions in a browser.

    Without options it shows everything, changes nothing, and can be reached from this machine
    alone, by whoever is on it. At any other --host it wants --passwords or --proxy-header, and, for
    passwords, a proxy in front of it that speaks TLS.

    \b
    Examples:
      celery -A shop fair web
      celery -A shop fair web --allow-changes --action-log actions.jsonl
      celery -A shop fair web --host 0.0.0.0 --host-name fair.example.org --passwords passwords

    Exit status: 0 when it is stopped; 1 if it cannot listen there, or a package is missing; 2 for
    options that contradict each other.
    """
    if ctx.invoked_subcommand is not None:
        return
    app = the_app()
    Settings.of(app)
    with connection_to(app.connection_for_read):
        pass
    server = _module_of_the_page("server")
    options = server.Options(**given)
    with server.serving(app, options) as (address, run):
        click.echo(f"http://{address}{options.root_path}  (Ctrl-C ends it)", err=True)
        with suppress(KeyboardInterrupt), interruptible():
            run()


def _module_of_the_page(name: str) -> Any:
    """Import what is beside the commands, by its name, as they are, too: it needs an extra."""
    try:
        return import_module(f"celery_fair.web.{name}")
    except ImportError as exc:
        raise click.ClickException(
            f"fair web needs packages ({exc}): pip install celery-fair[web]"
        ) from exc


@web.command()
@click.argument("name")
def password(name: str) -> None:
    """Make a password for NAME, and print a line for the file of `fair web --passwords`.

    The line has its hash. The password itself is said on standard error, this once.

    \b
    Example:
      celery -A shop fair web password alice >> passwords

    Exit status: 0; 2 for a name that cannot be.
    """
    try:
        made, line = _module_of_the_page("passwords").new_password(name)
    except ValueError as exc:
        raise click.UsageError(str(exc)) from None
    click.echo(line)
    click.echo(f"The password of {name}: {made}", err=True)


@web.command()
def dashboard() -> None:
    """Print the dashboard for Grafana, as JSON to import there.

    It is over the metrics of workers with fair_metrics. While importing, Grafana asks which of its
    Prometheus data sources to read.

    \b
    Examples:
      celery fair web dashboard > celery-fair.json
    """
    place = files("celery_fair.worker.observe").joinpath("grafana-dashboard.json")
    click.echo(place.read_text(encoding="utf-8"), nl=False)
