"""``fair dead-letters list``."""

import json
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import click

from celery_fair.cli.columns import aligned
from celery_fair.cli.dead_letters.access import dead_letters_of
from celery_fair.cli.dead_letters.filters import Filters, filtering
from celery_fair.dead_letters.letter import Letter
from celery_fair.operate.text import age, escaped, shortened

__all__ = ["list_letters"]

_HEADS = ["id", "task", "queue", "reason", "may have started", "time (UTC)", "age"]
_STARTED = {True: "yes", False: "no", None: "?"}
_WIDTH = 60


@click.command("list")
@filtering
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Show no more than N; 0 for all.",
)
@click.option("-j", "--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
@click.pass_context
def list_letters(ctx: click.Context, filters: Filters, limit: int, as_json: bool) -> None:
    """Show the dead letters, the oldest first; nothing is changed.

    \b
    id                what show, replay and purge take: the task's id, or a digest
    task              its name
    queue             where the message was
    reason            why it was not started, such as redelivered
    may have started  whether somebody may have started it before; ? if it does not say
    time, age         when it became a dead letter

    \b
    Examples:
      celery -A shop fair dead-letters list
      celery -A shop fair dead-letters list --reason redelivered --task shop.charge --since 2h
      celery -A shop fair dead-letters list --since 2026-05-31T14:00Z --before 1d --limit 0 --json

    Exit status: 0; 1 if the broker cannot be reached.
    """
    shown: list[Any] = []
    more = 0
    now = datetime.now(UTC)
    with dead_letters_of(ctx) as queue, closing(queue.browse()) as letters:
        for letter in letters:
            if not filters.fit(letter):
                continue
            if limit and len(shown) == limit:
                more += 1
            else:
                shown.append(_fields(letter) if as_json else _cells(letter, now))
    if as_json:
        click.echo(json.dumps(shown, indent=2))
    else:
        _print(shown, filters)
    if more:
        click.echo(f"{more} more; --limit 0 shows all.", err=True)


def _print(rows: Sequence[list[str]], filters: Filters) -> None:
    if rows:
        click.echo("\n".join(aligned([_HEADS, *rows])))
    else:
        click.echo("No dead letter is like that." if filters else "There are no dead letters.")


def _cells(letter: Letter, now: datetime) -> list[str]:
    return [
        escaped(letter.id),
        *(shortened(text or "–", _WIDTH) for text in (letter.task, letter.queue, letter.reason)),
        _STARTED[letter.may_have_started],
        letter.time.strftime("%Y-%m-%d %H:%M:%S") if letter.time else "–",
        age(letter.time, now) if letter.time else "–",
    ]


def _fields(letter: Letter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "digest": letter.digest,
        "task": letter.task,
        "queue": letter.queue,
        "reason": letter.reason,
        "may_have_started": letter.may_have_started,
        "time": letter.time.isoformat() if letter.time else None,
        "worker": letter.text("x-fair-worker"),
        "detail": letter.text("x-fair-detail"),
    }
