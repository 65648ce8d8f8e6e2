"""Why a figure of a queue is what it is, in a sentence."""

from collections.abc import Iterator
from typing import Any

from celery_fair.operate.text import duration, figure
from celery_fair.web.snapshot import Queue

__all__ = ["held", "limits", "percent", "sentences", "span"]

_ON_TARGET = 0.05
"""A share is on target if it differs by no more than this part of it."""

_HELD = {
    "paused": "an operator has paused it",
    "cap": "as many of its tasks run as may (max_in_flight)",
    "leash": "its rate has no token yet",
}


def percent(part: float) -> str:
    """Return a part as a percentage."""
    return f"{100 * part:.1f} %"


def span(seconds: float) -> str:
    """Return a time, in milliseconds if it is short."""
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else duration(seconds)


def held(queue: Queue) -> str:
    """What holds a queue back, and at how many workers if not at all."""
    return ", ".join(
        reason if count == queue.workers else f"{reason} at {count} of {queue.workers}"
        for reason, count in sorted(queue.held.items())
    )


def limits(queue: Queue) -> str:
    """A queue's rate, burst and cap at each of its workers."""
    return "; ".join(_limit(*limit) for limit in queue.limits)


def _limit(rate: float | None, burst: Any, cap: int | None) -> str:
    leash = "" if rate is None else f"{rate:.4g}/s, burst {burst}"
    return ", ".join(filter(None, (leash, "" if cap is None else f"at most {cap} at once")))


def sentences(queue: Queue) -> dict[str, str]:
    """Return why each figure is what it is, by the figure's name."""
    return {
        "target": _target(queue),
        "share": _share(queue),
        "starts": _starts(queue),
        "wait": _wait(queue),
        "backlog": _backlog(queue),
        "oldest": _oldest(queue),
        "running": _running(queue),
        "held": _held(queue),
    }


def _target(queue: Queue) -> str:
    quanta = " or ".join(figure(each) for each in sorted(queue.quanta))
    if not queue.target:
        return (
            f"It was not active in the last ten seconds, so it has no target. Its quantum is"
            f" {quanta}: active, its target is that as a part of the quanta of all active queues."
        )
    more = ""
    if len(queue.quanta) > 1:
        more = " Its workers differ: they have other settings, or some were told otherwise."
    return (
        f"Its quantum of {quanta} is {percent(queue.target)} of the quanta of all queues that were"
        f" active in the last ten seconds.{more}"
    )


def _share(queue: Queue) -> str:
    if not queue.target:
        return "It was served nothing in the last ten seconds, as it had nothing."
    ratio = queue.share / queue.target
    said = (
        f"It got {percent(queue.share)} of what was served, for a target of {percent(queue.target)}"
    )
    if abs(ratio - 1) <= _ON_TARGET:
        return f"{said}: it is on target."
    if ratio > 1:
        return (
            f"{said}: others had too little to take all that is theirs, or were held back, and"
            " what they leave goes to those that have something."
        )
    if queue.held:
        return f"{said}: {_because(queue)}, so it leaves some of it to others."
    if queue.backlog:
        return (
            f"{said}, though messages wait: a higher class goes first, or the broker has not"
            " delivered them yet."
        )
    return f"{said}: it had no more to start, and left the rest to others."


def _starts(queue: Queue) -> str:
    if queue.per_second is None:
        return "Starts are counted from one look to the next; wait a few seconds."
    return (
        f"{figure(queue.per_second)} of its messages were started a second, counted over the last"
        f" five to ten seconds; {queue.served:,} since its workers' start."
    )


def _wait(queue: Queue) -> str:
    if not queue.waits:
        return (
            "Workers count how long messages wait if they serve metrics: set fair_metrics. The"
            " oldest message at a worker is known without that."
        )
    median, p95 = queue.median, queue.p95
    if median is None or p95 is None:
        return "Nothing was started in the last five to ten seconds."
    return (
        f"Of the messages that were started in the last five to ten seconds, half had waited less"
        f" than {span(median)} at their worker, and 95 % less than {span(p95)}."
    )


def _backlog(queue: Queue) -> str:
    if queue.waiting is None:
        return (
            f"{queue.buffered:,} messages wait at workers; the broker has not said how many wait"
            " there."
        )
    said = (
        f"{queue.waiting:,} messages wait at the broker, and {queue.buffered:,} at workers, which"
        f" may hold {queue.window:,} (their windows)."
    )
    if queue.empty_in is None or not queue.backlog:
        return said
    return (
        f"{said} At {figure(queue.per_second or 0)} starts a second it is empty in"
        f" {span(queue.empty_in)}, if nothing comes in."
    )


def _oldest(queue: Queue) -> str:
    if not queue.buffered:
        return "No message waits at a worker; when those at the broker were published is not known."
    came = f"The first message that waits at a worker came there {span(queue.oldest)} ago"
    if queue.age is None:
        return (
            f"{came}. How long it had waited at the broker is not known: its publisher is another."
        )
    return (
        f"{came}, and was published {span(queue.age)} ago. Those at the broker are younger, but for"
        " what was given back and what priorities have let by."
    )


def _running(queue: Queue) -> str:
    return f"{queue.in_flight:,} of its tasks run now, at {queue.workers} workers."


def _held(queue: Queue) -> str:
    if not queue.held:
        return "Nothing holds it back."
    return f"It is held back: {_because(queue)}."


def _because(queue: Queue) -> str:
    return ", ".join(_reasons(queue))


def _reasons(queue: Queue) -> Iterator[str]:
    for reason, count in sorted(queue.held.items()):
        where = "" if count == queue.workers else f" at {count} of {queue.workers} workers"
        yield f"{_HELD.get(reason, reason)}{where}"
