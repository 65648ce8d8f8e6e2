"""What an app says of itself: its versions, settings and tasks."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from celery_fair.core.disposition import Policy
from celery_fair.operate.doctor.findings import Finding, listed, ok, weak, wrong
from celery_fair.routing.declared import collisions
from celery_fair.settings import Settings
from celery_fair.tasks import non_repeatable, policy_of
from celery_fair.worker.step import is_fair


def app_findings(app: Any, settings: Settings) -> Iterator[Finding]:
    """Check everything that needs no server."""
    packages = ("celery-fair", "celery", "kombu")
    yield ok("versions", ", ".join(f"{name} {version(name)}" for name in packages))
    yield _step(app, settings)
    if app.conf.task_always_eager:
        yield wrong(
            "task_always_eager",
            "tasks run where they are published: no broker, no worker, no share, no check",
            "app.conf.task_always_eager = False",
        )
    yield from _tasks(app)
    yield from _windows(app, settings)
    for queues, trouble, mend in collisions(app.amqp.queues.values()):
        yield wrong(queues, trouble, mend)


def _step(app: Any, settings: Settings) -> Finding:
    if not is_fair(app):
        return wrong(
            "bootstep",
            "workers of this app are Celery's own: no shares, and of non-repeatable tasks nothing"
            " but the check for redelivered messages",
            "celery_fair.install(app), where the app is made",
        )
    if not getattr(app.amqp_cls, "knows_levels", False):
        keyless = "; a key that they give, by fair_key=…, is lost" if settings.keys else ""
        return weak(
            "bootstep",
            "workers are fair; publishers know no logical queues, and do not say when they"
            f" publish, without which a ledger proves nothing{keyless}",
            "celery_fair.install(app) in place of app.steps['consumer'].add(FairConsumerStep)",
        )
    return ok("bootstep", "workers are fair, publishers say when they publish")


def _tasks(app: Any) -> Iterator[Finding]:
    tasks = [app.tasks[name] for name in non_repeatable(app)]
    for task in tasks:
        confirmed = ", with a round trip" if task.confirm else ""
        when = "it starts" + confirmed if policy_of(task) is Policy.BEFORE else "it has ended"
        yield ok(f"task {task.name}", f"non-repeatable, acknowledged {task.ack} {when}")
    late = [
        name
        for name, task in sorted(app.tasks.items())
        if task.acks_late and task not in tasks and not name.startswith("celery.")
    ]
    if late:
        yield weak(
            "acks_late",
            f"start again after a crash, as Celery documents: {listed(late)}",
            "if one must not, @app.task(base=NonRepeatableTask, ack='after')",
        )
    if not tasks:
        yield ok("tasks", "none is non-repeatable; after a lost connection any may start twice")


def _windows(app: Any, settings: Settings) -> Iterator[Finding]:
    if not non_repeatable(app):
        return
    pushed = [name for name in app.amqp.queues if settings.queue(name).fetch == "push"]
    if pushed and (settings.ledger is None or settings.ledger_since is None):
        yield weak(
            "prefetch",
            "what waits in a worker's window counts as delivered: after a lost connection or a kill"
            f" it is dead-lettered, unstarted. Queues: {listed(pushed)}",
            "fair_queues = {'…': {'fetch': 'pull'}} where non-repeatable tasks are; or fair_ledger,"
            " with fair_ledger_since",
        )
    elif not pushed:
        yield ok("prefetch", "queues are pulled from: no worker holds what it does not run")
