"""``fair keys drop``, ``purge``, ``merge`` and ``shrink``: what becomes of messages and lanes.

They are added to the group in `keys`; importing this module makes it whole.
"""

import sys
from typing import Any

import click

from celery_fair.brokers.lanes import register
from celery_fair.cli.interrupt import in_steps, stoppable
from celery_fair.cli.keys import key_argument, keys_group
from celery_fair.cli.options import Outcome, outcome, the_app
from celery_fair.operate.keys import opened, waiting_by_key
from celery_fair.operate.keys.keys import Moved, shown_key
from celery_fair.operate.text import counted

_as_json = outcome("Print an object as JSON.")
_yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
_dry_run = click.option("--dry-run", is_flag=True, help="Say how many messages that would be.")


@keys_group.command("drop")
@key_argument
@_yes
@_dry_run
@_as_json
def drop_key(queue: str, key: str, yes: bool, dry_run: bool) -> Outcome:
    """Move what KEY has waiting in QUEUE to the dead letters, those that came first at first.

    They are kept there: `fair dead-letters replay --all --reason dropped` has them back, and
    `fair dead-letters purge` deletes them. What runs goes on, and what is published from now on
    starts as before: pause the key first, if it should not. A tenant's parts are dropped with it;
    written tenant/part, the part alone. --no-key in place of KEY means messages that have none.
    On RabbitMQ a key's messages cannot be told from others.

    It asks first; where standard input is no terminal, --yes is needed.

    \b
    Examples:
      celery -A shop fair keys drop jobs acme --dry-run
      celery -A shop fair keys drop jobs acme --yes
      celery -A shop fair keys drop jobs acme/user-7

    Exit status: 0; 1 if the broker cannot be reached, or not all was dropped.
    """
    _must_be_sure(yes or dry_run)
    with opened(the_app(), queue) as keys:
        waiting = keys.waiting_of(key)
        count, moved = sum(waiting.values()), None
        if _is_meant(count, yes, dry_run, "Move {} messages to the dead letters?"):
            with in_steps("dropping", count) as (stop, tick):
                moved = keys.drop(key, waiting, False, stop, tick)
    who = f"{shown_key(key)} in {queue}"
    return _told({"queue": queue, "key": key, "waiting": count}, who, moved, "dropped")


@keys_group.command("purge")
@key_argument
@click.option("--all", "everybody", is_flag=True, help="Whosever messages wait, in place of KEY.")
@_yes
@_dry_run
@_as_json
def purge_keys(queue: str, key: str | None, everybody: bool, yes: bool, dry_run: bool) -> Outcome:
    """Delete what KEY has waiting in QUEUE, or all that waits there, for good.

    `fair keys drop` keeps it, as dead letters. What runs goes on, and what is published from now on
    starts as before. Celery's purge sees no more of a queue of fair_keys than what is not sorted
    yet: --all deletes what was sorted by key, too. On RabbitMQ a key's messages cannot be told from
    others.

    It asks first; where standard input is no terminal, --yes is needed.

    \b
    Examples:
      celery -A shop fair keys purge jobs acme --dry-run
      celery -A shop fair keys purge jobs --all --yes

    Exit status: 0; 1 if the broker cannot be reached, or not all was deleted.
    """
    if everybody and key is not None:
        raise click.UsageError("--all means whosever messages wait: leave KEY and --no-key out")
    _must_be_sure(yes or dry_run)
    with opened(the_app(), queue, was_shared=key is None) as keys:
        waiting = {} if key is None else keys.waiting_of(key)
        count, moved = keys.everything() if key is None else sum(waiting.values()), None
        if _is_meant(count, yes, dry_run, "Delete {} messages for good?"):
            if key is None:
                moved = keys.purge_everything()
            else:
                with in_steps("deleting", count) as (stop, tick):
                    moved = keys.drop(key, waiting, True, stop, tick)
    who = queue if key is None else f"{shown_key(key)} in {queue}"
    return _told({"queue": queue, "key": key, "waiting": count}, who, moved, "purged")


def _must_be_sure(sure: bool) -> None:
    if not (sure or sys.stdin.isatty()):
        raise click.UsageError("this takes messages away; say --yes, or --dry-run to look")


def _is_meant(count: int, yes: bool, dry_run: bool, question: str) -> bool:
    """Whether it is to be done with so many messages; end the command if somebody says no."""
    if dry_run or not count:
        return False
    return yes or click.confirm(question.format(count), abort=True, err=True)


def _told(document: dict[str, Any], who: str, moved: Moved | None, done: str) -> Outcome:
    """Say how many messages of a queue, or key, have gone; None: how many wait."""
    if moved is None:
        waiting = f"{document['waiting']} messages of {who} wait"
        return Outcome({**document, done: 0, "left": 0}, [waiting])
    lines = [f"{moved.count} messages of {who} are {done}"]
    if moved.left:
        why = ", as this was interrupted" if moved.interrupted else ""
        lines.append(f"{moved.left} are still waiting{why}; say it again")
    return Outcome({**document, done: moved.count, "left": moved.left}, lines, not moved.left)


@keys_group.command("merge")
@click.argument("queue", required=False)
@click.option("--all", "every", is_flag=True, help="Each of the app's queues, in place of QUEUE.")
@_as_json
def merge_keys(queue: str | None, every: bool) -> Outcome:
    """Put what was sorted by key back into QUEUE itself, each key's messages in their order.

    It is for workers without fair_keys, and for Celery's purge, also when the settings have no
    fair_keys any more. Stop workers with fair_keys first, and publishers with celery-fair: they
    would sort it again. As many are put back as there were at its beginning.

    \b
    Examples:
      celery -A shop fair keys merge jobs
      celery -A shop fair keys merge --all

    Exit status: 0; 1 if the broker cannot be reached, or some messages were sorted again while
    others were put back.
    """
    if every is (queue is not None):
        raise click.UsageError("name a QUEUE, or say --all")
    app = the_app()
    lines, all_, left = list[str](), 0, 0
    for name in waiting_by_key(app) if queue is None else [queue]:
        with opened(app, name, was_shared=True) as keys:
            waiting = keys.waiting()
            with in_steps(f"merging {name}", sum(waiting.values())) as (stop, tick):
                merged = keys.merge(waiting, stop, tick)
        all_, left = all_ + merged.count, left + merged.left
        lines.append(f"{merged.count} messages are back in {name}")
        if merged.left:
            lines.append(_not_merged(merged, keys.place))
    lines = lines or ["no messages wait by key"]
    return Outcome({"merged": all_, "left": left}, lines, not left)


def _not_merged(merged: Moved, place: str) -> str:
    if merged.interrupted:
        return f"about {merged.left} still wait in {place}, as this was interrupted; say it again"
    return (
        f"{merged.left} wait in {place} again: workers with fair_keys, or publishers with"
        " celery-fair, are at work. Stop them, and say it again"
    )


@keys_group.command("shrink")
@click.argument("queue")
@click.option("--yes", "-y", is_flag=True, help="Do not ask whether all is stopped.")
@_as_json
def shrink_keys(queue: str, yes: bool) -> Outcome:
    """Remove lanes of QUEUE on RabbitMQ that are empty, the highest numbers first.

    Stop all workers and all publishers of the queue before: what one of them sends to a lane just
    then would be lost, and so could be what a worker runs of it. It asks whether you have, and
    refuses while a worker of the queue answers. A lane that is not empty stays; `fair keys merge`
    empties them.

    \b
    Examples:
      celery -A shop fair keys merge jobs
      celery -A shop fair keys shrink jobs --yes

    Exit status: 0; 1 if the broker cannot be reached, or not all lanes could be removed.
    """
    with opened(the_app(), queue, was_shared=True) as keys:
        if not (yes or sys.stdin.isatty()):
            raise click.UsageError("say --yes when all workers and publishers of it are stopped")
        if not yes:
            asked = f"Are all workers and all publishers of {queue} stopped?"
            click.confirm(asked, abort=True, err=True)
        with stoppable() as stop:
            removed = keys.shrink(stop)
    lines = [f"{counted(removed.count, 'empty lane')} of {queue} removed, {removed.left} left"]
    if removed.left and removed.interrupted:
        lines.append("this was interrupted; say it again")
    elif removed.left:
        last = f"{register(queue)}.{removed.left - 1}"
        lines.append(
            f"{last} is not empty, and lanes are numbered without gaps: `fair keys merge {queue}`"
            " puts what waits in lanes back into the queue itself; then say this again"
        )
    document = {"removed": removed.count, "left": removed.left}
    return Outcome(document, lines, not removed.left)
