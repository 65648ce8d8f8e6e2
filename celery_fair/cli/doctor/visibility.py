"""The time after which a broker gives a message to another worker, whatever the first one does."""

from typing import Any

from celery_fair.cli.doctor.findings import Finding, ok, weak
from celery_fair.core.disposition import Policy
from celery_fair.tasks import policy_of

__all__ = ["late_for_longer", "visibility"]


def late_for_longer(app: Any, seconds: float) -> list[str]:
    """Return the tasks that are acknowledged when they end, and may run for longer."""
    longer = []
    for name, task in sorted(app.tasks.items()):
        late = policy_of(task) is Policy.AFTER or task.acks_late
        limit = task.time_limit or app.conf.task_time_limit
        if late and not name.startswith("celery.") and (limit is None or limit > seconds):
            longer.append(name)
    return longer


def visibility(app: Any, seconds: float) -> Finding:
    """Compare it with how long tasks may run that are acknowledged when they end."""
    longer = late_for_longer(app, seconds)
    if longer:
        return weak(
            "visibility timeout",
            f"what runs for longer than {seconds:g} s is delivered again while it runs, and"
            f" dead-lettered if it is non-repeatable: {', '.join(longer)}",
            "broker_transport_options = {'visibility_timeout': …} above the longest run, or a"
            " time_limit below it",
        )
    return ok("visibility timeout", f"{seconds:g} s, longer than what is acknowledged late may run")
