"""What the workers say that run now."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from typing import Any

from celery_fair.cli.doctor.findings import Finding, ok, weak
from celery_fair.cli.live.answers import NoAnswer
from celery_fair.cli.live.workers import Workers
from celery_fair.settings import Settings

__all__ = ["worker_findings"]


def worker_findings(app: Any, settings: Settings, timeout: float) -> Iterator[Finding]:
    """Ask the workers on the app's broker.

    Arguments:
        timeout: seconds for which answers are waited for; with 0 nobody is asked.
    """
    if not timeout:
        return
    with closing(Workers(app, (), timeout)) as workers:
        try:
            answers = workers.ask("fair_status")
        except NoAnswer:
            yield ok("workers that run", f"none has answered within {timeout:g} s")
            return
        foreign = sorted({*answers.notes, *answers.errors} - answers.good.keys())
        queues = _consumed(workers, foreign)
    if answers.good:
        yield ok("workers that run", f"fair, and answering: {', '.join(answers.good)}")
    for name in foreign:
        yield _celerys_own(name, queues.get(name, []), settings.keys)
    for name, rows in answers.good.items():
        yield from _another(name, rows, settings)


def _consumed(workers: Workers, names: Collection[str]) -> dict[str, list[str]]:
    if not names:
        return {}
    try:
        answers = workers.ask("active_queues", sorted(names))
    except NoAnswer:
        return {}
    return {name: [queue["name"] for queue in queues] for name, queues in answers.good.items()}


def _celerys_own(name: str, queues: list[str], keyed: Collection[str]) -> Finding:
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
        if row.get("by_key", False) != (queue in settings.keys):
            what = "does not share" if queue in settings.keys else "shares"
            others.append(f"it {what} {queue} by key")
        quantum = settings.queue(queue).quantum
        if row["quantum"] != quantum:
            others.append(f"{queue} has quantum {row['quantum']:g}, for {quantum:g} here")
    if others:
        yield weak(
            f"worker {name}",
            f"has other settings than this app, or was told otherwise live: {'; '.join(others)}",
            "start it again, with these settings; or celery -A … fair set",
        )
