"""What the worker of every body is configured with."""

from __future__ import annotations

from celery import Celery
from pytest_celery import CeleryTestSetup, CeleryWorkerContainer

FAIR_QUEUES = {"interactive": {"quantum": 40}, "bulk": {"quantum": 4}}


class SmokeSetup(CeleryTestSetup):
    @classmethod
    def update_app_config(cls, app: Celery) -> None:
        app.conf.fair_queues = FAIR_QUEUES
        app.conf.broker_connection_retry_on_startup = True
        # What a killed worker held on Redis comes back only after this time.
        if app.conf.broker_url.startswith("redis"):
            app.conf.broker_transport_options = {"visibility_timeout": 5}


class SmokeWorkerContainer(CeleryWorkerContainer):
    """Also names what a local worker runs; only containers make instances."""

    @classmethod
    def command(cls, *args: str, **options: object) -> list[str]:
        """Without `-Q`: a queue in `fair_queues` is consumed because it is there."""
        # Asking other workers for their clocks takes a second at every start.
        command = super().command("-c", "2", "--without-mingle", *args, **options)
        option = command.index("-Q")
        return command[:option] + command[option + 2 :]
