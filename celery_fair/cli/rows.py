"""Queues' figures as tables, with the columns that there is room for."""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from shutil import get_terminal_size

import click

from celery_fair.cli.options import aligned
from celery_fair.operate.sums import Figures, aim_in_words
from celery_fair.operate.text import duration, escaped, figure, shortened

Text = Callable[[Figures], str]


def _waiting(figures: Figures) -> str:
    return duration(figures["waiting_seconds"]) if figures["buffered"] else "–"


def _held(figures: Figures) -> str:
    everywhere = figures.get("workers", 1)
    if figures["held"] and figures.get("held_workers", everywhere) < everywhere:
        return f"{figures['held']} on {figures['held_workers']} of {everywhere}"
    if figures["held"] == "cap":
        return f"cap {figures['max_in_flight']}"
    if figures["held"] == "leash":
        return f"leash {duration(figures['throttled_seconds'])}"
    return figures["held"] or ""


def _limits(figures: Figures) -> str:
    limits = []
    if figures["rate"] is not None:
        limits.append(f"{figures['rate']:.4g}/s, burst {figures['burst']}")
    if figures["max_in_flight"] is not None:
        limits.append(f"at most {figures['max_in_flight']}")
    return "; ".join(limits)


def _known(key: str, text: Callable[[float], str]) -> Text:
    return lambda figures: "–" if figures[key] is None else text(figures[key])


def _number(key: str) -> Text:
    return lambda figures: figure(figures[key])


def _percent(key: str) -> Text:
    return lambda figures: f"{100 * figures[key]:.1f} %"


_COLUMNS: dict[str, Text] = {
    "quantum": _number("quantum"),
    "class": _number("class"),
    "fair": _percent("target_share"),
    "share": _percent("share"),
    "credit": _number("credit"),
    "window": _number("window"),
    "buffered": _number("buffered"),
    "in flight": _number("in_flight"),
    "served": _number("served"),
    "starts/s": _number("per_second"),
    "waiting": _waiting,
    "workers": _number("workers"),
    "at broker": _known("waiting_at_broker", figure),
    "at workers": _number("buffered"),
    "oldest": _known("oldest_seconds", duration),
    "empty in": _known("empty_in_seconds", duration),
    "wait, target": lambda figures: aim_in_words(figures.get("aim")),
    "held back": _held,
    "limits": _limits,
}

BY_WORKER = (
    *("quantum", "class", "fair", "share", "credit", "window", "buffered", "in flight"),
    *("served", "starts/s", "waiting", "wait, target", "held back", "limits"),
)
SUMMED = (
    *("workers", "class", "fair", "share", "starts/s", "in flight", "at workers", "at broker"),
    *("oldest", "empty in", "wait, target", "held back"),
)
"""Of a queue over all workers."""

_SPARED = (
    *("limits", "window", "served", "workers", "in flight", "quantum", "at workers"),
    *("buffered", "starts/s", "empty in", "oldest"),
)
"""Those that are left out, one after the other, where there is no room for all."""

_IF_ANY = {"class": "0", "limits": "", "held back": "", "wait, target": ""}
"""Columns that are shown if any queue has something else there."""

_LONGEST = 30
"""Characters of a queue's name."""


def tables(
    names: Sequence[str], workers: Mapping[str, Mapping[str, Figures]], room: float
) -> Iterator[str]:
    """Yield the lines of each worker's queues, or of all of them, the highest class first.

    Arguments:
        names: the columns, `BY_WORKER` or `SUMMED`.
        room: how many columns a terminal has.
    """
    for worker, queues in workers.items():
        empty = "" if queues else ": consumes no queue"
        yield click.style(escaped(worker) + empty, bold=True)
        if queues:
            yield from (f"  {line}" for line in _table(names, queues, room - 2))


def _table(names: Sequence[str], queues: Mapping[str, Figures], room: float) -> list[str]:
    rows = sorted(queues.items(), key=lambda row: (-row[1]["class"], row[0]))
    texts = {name: [_COLUMNS[name](figures) for _, figures in rows] for name in names}
    texts = {name: some for name, some in texts.items() if {_IF_ANY.get(name)} != {*some}}
    columns = {"queue": [shortened(queue, _LONGEST) for queue, _ in rows], **texts}
    while True:
        lines = aligned([[*columns], *map(list, zip(*columns.values(), strict=True))])
        spared = next((name for name in _SPARED if name in columns), None)
        if spared is None or max(map(len, lines)) <= room:
            return lines
        del columns[spared]


def title(workers: Collection[str]) -> str:
    """Return what to write above figures over all workers."""
    names = ", ".join(sorted(workers)[:3]) + (", …" if len(workers) > 3 else "")
    return f"{len(workers)} workers: {names}" if len(workers) > 1 else names


def room() -> float:
    """Return how many columns standard output has; without end if it is no terminal."""
    return get_terminal_size().columns if sys.stdout.isatty() else float("inf")


def draw(lines: Sequence[str]) -> None:
    """Write lines over all that is on the terminal, which cuts off what it has no room for."""
    text = "".join(f"{line}\x1b[K\n" for line in lines[: get_terminal_size().lines - 1])
    click.echo(f"\x1b[H\x1b[?7l{text}\x1b[?7h\x1b[J", nl=False)
