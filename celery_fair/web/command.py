"""``fair web``."""

from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.cli.interrupt import interruptible
from celery_fair.cli.options import FOLDER, Seconds, app_of
from celery_fair.operate.broker import connection_to
from celery_fair.settings import Settings

__all__ = ["Options", "is_loopback", "web"]

_FILE = click.Path(dir_okay=False, path_type=Path)
_NEEDED = "fair web needs packages ({}): pip install celery-fair[web]"


class Options(NamedTuple):
    """What the command was given."""

    host: str
    port: int
    allow_changes: bool
    may_change: Sequence[str]
    passwords: Path | None
    proxy_header: str | None
    proxy: Sequence[str]
    host_name: Sequence[str]
    root_path: str
    action_log: Path | None
    provable: Path | None
    timeout: float
    event_log: Path | None


@click.command()
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
    "--event-log",
    metavar="FOLDER",
    type=FOLDER,
    help="Show the last six hours, by what workers write there (fair_event_log).",
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
      celery -A shop fair web --event-log /var/log/celery-fair
      celery -A shop fair web --host 0.0.0.0 --host-name fair.example.org --passwords passwords

    Exit status: 0 when it is stopped; 1 if it cannot listen there, or a package is missing; 2 for
    options that contradict each other.
    """
    app, options = app_of(ctx), Options(**given)
    _check(options)
    try:
        Settings.of(app)
        with connection_to(app.connection_for_read):
            pass
    except ImproperlyConfigured as exc:
        raise click.ClickException(str(exc)) from exc
    try:
        from celery_fair.web.server import serving
    except ImportError as exc:
        raise click.ClickException(_NEEDED.format(exc)) from exc
    with serving(ctx, options) as (address, run):
        click.echo(f"http://{address}{options.root_path}  (Ctrl-C ends it)", err=True)
        with suppress(KeyboardInterrupt), interruptible():
            run()


def _check(options: Options) -> None:
    """Refuse what would let in somebody unasked, or would not do what it says.

    Raises:
        click.UsageError: it does.
    """
    known = options.passwords is not None or options.proxy_header is not None
    if not is_loopback(options.host) and not known:
        raise click.UsageError(
            f"at {options.host} others than you can reach it: say who may, by --passwords FILE or"
            " --proxy-header HEADER"
        )
    if options.passwords is not None and options.proxy_header is not None:
        raise click.UsageError("--passwords and --proxy-header exclude each other: take one")
    if options.may_change and not options.allow_changes:
        raise click.UsageError("--may-change says who may: it needs --allow-changes")
    if options.may_change and not known:
        raise click.UsageError(
            "--may-change goes by names: it needs --passwords FILE or --proxy-header HEADER"
        )
    if options.root_path and not options.root_path.startswith("/"):
        raise click.UsageError(f"--root-path is a path such as /fair, not {options.root_path!r}")


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to it."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
