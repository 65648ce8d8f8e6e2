"""Makes the queues of ``fair_queues`` known to an app, for publishing and for consuming."""

from typing import Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.settings import Settings

__all__ = ["declare_queues"]


def declare_queues(app: Any, settings: Settings) -> None:
    """Add the queues of ``fair_queues`` to the app's; consume from them unless ``-Q`` was given.

    To be called before Celery applies ``-Q`` and ``-X``; a second call for the same app does
    nothing, so that what ``-X`` took out stays out.

    Raises:
        celery.exceptions.ImproperlyConfigured: for a name that is no queue, where
            ``task_create_missing_queues`` is off.
    """
    queues = app.amqp.queues
    if getattr(queues, "fair", False):
        return
    for name in settings.queues:
        queue = dict.get(queues, name) or queues.aliases.get(name) or _missing(queues, name)
        if queues._consume_from is None:
            queues.select_add(queue)
        else:
            queues.add(queue)
    queues.fair = True


def _missing(queues: Any, name: str) -> Any:
    if not queues.create_missing:
        raise ImproperlyConfigured(
            f"fair_queues: {name!r} is no queue: it is not in task_queues, and"
            f" task_create_missing_queues is off; there are: {', '.join(sorted(queues)) or 'none'}"
        )
    return queues.new_missing(name)
