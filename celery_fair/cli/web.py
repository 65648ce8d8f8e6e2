"""``fair web``: the page, and the dashboard for Grafana."""

from contextlib import suppress
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from celery_fair.cli.groups import Group
from celery_fair.cli.interrupt import interruptible
from celery_fair.cli.options import Seconds, the_app, timeout_option
from celery_fair.operate.broker import connection_to

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=Group, invoke_without_command=True)
@click.option("--host", default="127.0.0.1", help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=5556, help="0 for a free one.")
@click.option("--allow-changes", is_flag=True, help="Let visitors change something.")
@click.option(
    "--may-change",
    metavar="NAME",
    multiple=True,
    help="Let only these visitors change something; may be repeated.",
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
@click.option("--root-path", metavar="PATH", default="", help="A path that a proxy strips: /fair.")
@click.option(
    "--action-log", metavar="FILE", type=_FILE, help="Write each change to the end of this."
)
@timeout_option(Seconds(0, 60, min_open=True), "How long to wait for workers' answers.")
@click.pass_context
def web(ctx: click.Context, /, **given: Any) -> None:
    """Show workers, queues, keys, dead letters and partitions in a browser.

    Without options it shows everything, changes nothing, and can be reached from this machine
    alone, by whoever is on it. At any other --host it wants a proxy in front of it, which says who
    it has let in: --proxy-header.

    \b
    Examples:
      celery -A shop fair web
      celery -A shop fair web --allow-changes --action-log actions.jsonl
      celery -A shop fair web --proxy-header X-Forwarded-User --host-name fair.example.org

    Exit status: 0 when it is stopped; 1 if it cannot listen there, or a package is missing; 2 for
    options that contradict each other.
    """
    if ctx.invoked_subcommand is not None:
        return
    app = the_app()
    with connection_to(app.connection_for_read):
        pass
    try:
        server = import_module("celery_fair.web.server")  # beside the commands, as they are
    except ImportError as exc:
        raise click.ClickException(
            f"fair web needs packages ({exc}): pip install celery-fair[web]"
        ) from exc
    options = server.Options(**given)
    with server.serving(app, options) as (address, run):
        click.echo(f"http://{address}{options.root_path}  (Ctrl-C ends it)", err=True)
        with suppress(KeyboardInterrupt), interruptible():
            run()


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
