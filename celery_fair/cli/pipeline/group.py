"""``fair pipeline``: its commands, each imported when it is used."""

from importlib import import_module

import click

__all__ = ["pipeline"]

_COMMANDS = {
    "audit": "celery_fair.cli.pipeline.auditing:audit",
    "ingest": "celery_fair.cli.pipeline.ingesting:ingest",
    "fairness": "celery_fair.cli.pipeline.sharing:fairness",
    "waits": "celery_fair.cli.pipeline.waiting:waits",
    "costs": "celery_fair.cli.pipeline.costing:costs",
    "whatif": "celery_fair.cli.pipeline.supposing:whatif",
    "advise": "celery_fair.cli.pipeline.advising:advise",
    "report": "celery_fair.cli.pipeline.reporting:report",
    "stream": "celery_fair.cli.pipeline.streaming:stream",
    "doctor": "celery_fair.cli.pipeline.examining:doctor",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_LazyGroup)
def pipeline() -> None:
    """Ask the workers' event logs: what was fair, what waited, what was lost, what would help.

    Workers with fair_event_log write down what becomes of each message. `ingest` reads these logs
    into a warehouse, a folder of Parquet tables; the other commands ask the warehouse. They run on
    Spark: on this machine, with --master on a cluster, or under spark-submit.

    \b
    Examples:
      python -m celery_fair pipeline doctor
      python -m celery_fair pipeline ingest /var/log/celery-fair warehouse
      python -m celery_fair pipeline audit warehouse --fail-on duplicate,lost
    """
