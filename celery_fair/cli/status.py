"""``fair status``."""

from typing import Any

import click

from celery_fair.cli.asking import asking, remarks_on, view_option
from celery_fair.cli.options import Outcome, conclude, json_option
from celery_fair.cli.rows import STATUS, SUMMED, Row, tables, title
from celery_fair.cli.screen import PlainScreen, suitable_screen
from celery_fair.operate.sums import summed
from celery_fair.operate.text import escaped
from celery_fair.operate.workers import Workers

__all__ = ["status"]


@click.command()
@view_option
@json_option("Print the answers as JSON, by worker.")
@asking
def status(workers: Workers, as_json: bool, by: str | None) -> None:
    """Show what queues get, and what waits in them, over all workers, or at each one.

    Workers of another app on the same broker, which has another name and other queues, are named,
    and left out unless -d asks them.

    \b
    Over all workers:
    workers    that consume the queue
    target     its part of what is served, by the quanta of the queues that are active
    share      what it got of the cost served in the last ten seconds
    starts/s   in the last ten seconds
    in flight  tasks that run
    at workers, at broker  messages that wait; in a queue of fair_keys, its lanes' too
    oldest     the age of the oldest of them, where it is told: publishers have `install`, and it
               is at a worker, or in Redis; a RabbitMQ shows nothing without giving it out
    empty in   how long until all that waits has started, if no more comes
    held back  paused; cap: as many in flight as it may; leash: until its next token

    \b
    With --by worker also:
    quantum    what the queue is served per round, in units of cost
    class      under strict priority: a higher one goes first
    credit     what it may still be served in its turn (the deficit counter)
    window     deliveries that may be unsettled here at once
    buffered   messages that wait here, of these deliveries
    served     messages started since the worker's start
    waiting    how long the oldest buffered message has waited here

    --json prints the workers' answers; with --by queue, what they sum up to.

    \b
    Examples:
      celery -A shop fair status
      celery -A shop fair status --by worker -d celery@host1,celery@host2
      celery -A shop fair status --json | python -m json.tool
      celery -A shop fair keys list jobs

    Exit status: 0; 1 if a worker answers with an error or no worker answers.
    """
    document: dict[str, Any]
    answers, remarks = workers.status(), list[str]()
    if by == "worker" or (as_json and by is None):
        document = {worker: answers.raw[worker] for worker in answers.good}
        rows = {w: [Row(*row) for row in queues.items()] for w, queues in answers.good.items()}
        names = STATUS
    else:
        document, trouble = summed(workers, answers.good) if answers.good else ({}, "")
        remarks = [escaped(f"Note: {trouble}")] if trouble else []
        some = [Row(q, row, per_second=row["per_second"]) for q, row in document.items()]
        rows = {title(answers.good): some} if answers.good else {}
        names = SUMMED
    if not as_json:
        screen = suitable_screen(PlainScreen(), no_color=click.get_current_context().obj.no_color)
        screen.show(*tables(names, rows, screen.width))
    remarks += remarks_on(answers)
    conclude(Outcome(document, [], not answers.errors, remarks), as_json)
