"""What the workers say that run now."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

from celery_fair.operate.doctor.findings import Finding, listed, ok, weak, wrong
from celery_fair.operate.errors import NoAnswerError
from celery_fair.operate.workers import Workers
from celery_fair.routing.declared import queues_of
from celery_fair.settings import Settings


def worker_findings(app: Any, settings: Settings, timeout: float) -> Iterator[Finding]:
    """Ask the workers on the app's broker.

    Arguments:
        timeout: seconds for which answers are waited for; with 0 nobody is asked.
    """
    if not timeout:
        return
    with closing(Workers(app, (), timeout)) as workers:
        try:
            answers = workers.status()
        except NoAnswerError as exc:
            if exc.silent:
                yield weak("workers that run", str(exc), "start one; --timeout 0 asks none")
            else:
                yield wrong("workers that run", str(exc), _NO_CONTROL)
            return
        foreign = sorted({*answers.notes, *answers.errors}.difference(answers.good, answers.others))
        consumed: Mapping[str, Any] = {}
        with suppress(NoAnswerError):
            consumed = workers.ask("active_queues", foreign).good if foreign else {}
    queues = {name: [each["name"] for each in some] for name, some in consumed.items()}
    if answers.good:
        yield ok("workers that run", f"fair, and answering: {', '.join(answers.good)}")
    for name in foreign:
        yield _celerys_own(name, queues.get(name, []), settings.keys, queues_of(app))
    if answers.others:
        said = ", ".join(f"{name} ({theirs})" for name, theirs in sorted(answers.others.items()))
        yield ok("workers of other apps", f"{said}: on the same broker, and not looked at")
    for name in answers.good:
        yield from _another(name, answers.raw[name], settings)
    found = {queue for some in (*answers.good.values(), *queues.values()) for queue in some}
    yield from _without_workers(app, settings, found)


_NO_CONTROL = (
    "rights for Celery's remote control: to configure, write and read celery.pidbox,"
    " reply.celery.pidbox and what ends in them (.*pidbox)"
)


def _without_workers(app: Any, settings: Settings, consumed: Collection[str]) -> Iterator[Finding]:
    idle = sorted(set(app.amqp.queues).difference(consumed, settings.logical_queues))
    if idle:
        yield weak(
            "queues without workers",
            f"of the workers that answer none consumes {listed(idle)}: what is published there"
            " waits",
            "start a worker with -Q …, or take them from the settings",
        )


def _celerys_own(
    name: str, queues: list[str], keyed: Collection[str], ours: Collection[str]
) -> Finding:
    if queues and set(queues).isdisjoint(ours):
        said = f"is Celery's own, and consumes {', '.join(queues)}: no queue of this app"
        return ok(f"worker {name}", said)
    unseen = sorted(set(queues).intersection(keyed))
    more = f"; of {', '.join(unseen)} it sees neither lanes nor what was sorted" if unseen else ""
    return weak(
        f"worker {name}",
        f"is Celery's own, and consumes {', '.join(queues) or 'what it does not say'}: no shares"
        f" there{more}",
        "start it with this app, after celery_fair.install(app)",
    )


def _another(
    name: str, rows: Mapping[str, Mapping[str, Any]], settings: Settings
) -> Iterator[Finding]:
    """Name what a fair worker's settings say otherwise than the app's here."""
    others = []
    for queue, row in sorted(rows.items()):
        if row["by_key"] != (queue in settings.keys):
            what = "does not share" if queue in settings.keys else "shares"
            others.append(f"it {what} {queue} by key")
        aim, target = row.get("aim"), settings.queue(queue).target
        if (aim and aim["asked"]) != (target and str(target)):
            others.append(f"{queue} has target {aim and aim['asked']}, for {target} here")
        quantum = settings.queue(queue).quantum
        if row["quantum"] != quantum:
            others.append(f"{queue} has quantum {row['quantum']:g}, for {quantum:g} here")
    if others:
        yield weak(
            f"worker {name}",
            f"has other settings than this app, or was told otherwise live: {'; '.join(others)}",
            "start it again, with these settings; or celery -A … fair set",
        )
