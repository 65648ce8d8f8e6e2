"""The HTML file: everything in it, nothing loaded."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template

from celery_fair import html_page
from celery_fair.pipeline.report.by_key import by_key
from celery_fair.pipeline.report.charts import Series, bars, lines
from celery_fair.pipeline.report.figures import Figures, Row
from celery_fair.pipeline.report.tables import columns, number, percent, table

__all__ = ["page"]

_STATES = ("ready", "starved by the broker", "held by its leash or cap")
_WAITS = ("half of them (p50)", "up to p95", "up to p99")


def page(shown: Figures) -> str:
    """Return the report."""
    parts = files("celery_fair.pipeline.report")
    body = Template(parts.joinpath("body.html").read_text("utf-8"))
    return html_page.page(
        title="celery-fair: what the workers did",
        introduction=_introduction(shown),
        style=parts.joinpath("charts.css").read_text("utf-8"),
        body=body.substitute(
            summary=_summary(shown),
            shares=_shares(shown),
            states=_states(shown),
            capacity=_capacity(shown),
            waits=_waits(shown),
            audit=_audit(shown),
            letters=_letters(shown),
            costs=_costs(shown),
            by_key=by_key(shown.by_key),
            log=_log(shown),
        ),
    )


def _introduction(shown: Figures) -> str:
    since, until = (
        datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        for at in (shown.since, shown.until)
    )
    started = sum(shown.verdicts.values())
    unknown = shown.verdicts.get("UNKNOWN", 0)
    doubt = f" What became of {unknown:,} of them is not known: see below." if unknown else ""
    return (
        f"{started:,} attempts at tasks, by {shown.processes['processes']:,} processes,"
        f" from {since} to {until} (UTC). Shares are judged in intervals of {shown.interval:g} s."
        f"{doubt}"
    )


def _summary(shown: Figures) -> str:
    twice, lost = shown.verdicts["DUPLICATE"], shown.verdicts["LOST"]
    verdicts = [
        _verdict(shown.unfair, f"Unfair: {shown.unfair:,} of {shown.judged:,} queues."),
        _verdict(twice, f"Started twice: {twice:,}."),
        _verdict(lost, f"Started and lost: {lost:,}."),
    ]
    if shown.by_key is not None:
        keys = shown.by_key.unfair
        verdicts.append(_verdict(keys, f"Unfair: {keys:,} keys of queues that are shared by key."))
    return "\n".join(verdicts)


def _verdict(found: int, text: str) -> str:
    return html_page.verdict(not found, text)


def _shares(shown: Figures) -> str:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in shown.shares:
        found[row["queue"]].append(row)
    series = [
        Series(
            queue["queue"],
            [(row["since"], row["share"]) for row in found[queue["queue"]]],
            [(row["since"], row["target"]) for row in found[queue["queue"]]],
        )
        for queue in shown.queues
    ]
    chart = lines(series, "Share of each queue", 1.5 * shown.drawn)
    chart += _drawn_in(shown) if chart else ""
    heads = (
        *("queue", "quantum", "of", "share", "target", "off by", "of seconds", "verdict"),
        "intervals that are",
    )
    rows = [
        (
            queue["queue"],
            number(queue["quantum"]),
            queue["unit"],
            percent(queue["share"]),
            percent(queue["target"]),
            percent(queue["deviation"], signed=True),
            percent(queue["share_of_seconds"]),
            queue["verdict"],
            ", ".join(f"{n} {name}" for name, n in sorted(queue["verdicts"].items())),
        )
        for queue in shown.queues
    ]
    return _cut(shown) + chart + table(heads, rows, "No two queues had work at one time.")


def _cut(shown: Figures) -> str:
    """That queues are left out, if any are."""
    queues = len({queue["queue"] for queue in shown.queues})
    if queues == shown.judged:
        return ""
    return _note(
        f"{queues:,} of {shown.judged:,} queues are shown: the unfair ones first, then those with"
        " the most seconds of work. pipeline fairness shows the others."
    )


def _drawn_in(shown: Figures) -> str:
    """Of which length a chart's intervals are, if not of that which was judged."""
    if shown.drawn == shown.interval:
        return ""
    return _note(f"Drawn in intervals of {shown.drawn:g} s.")


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _states(shown: Figures) -> str:
    names = ("ready_seconds", "starved_seconds", "held_seconds")
    rows = [(queue["queue"], [queue[name] for name in names]) for queue in shown.queues]
    return _legend(_STATES) + bars(rows, _STATES, "Time in each state", "s")


def _capacity(shown: Figures) -> str:
    points = [(row["since"], row["utilisation"]) for row in shown.capacity]
    series = [Series("slots in use", points, [])] if points else []
    chart = lines(series, "Part of the slots that was in use", 1.5 * shown.drawn)
    return chart + _drawn_in(shown) if chart else _note("No worker said how many slots it has.")


def _waits(shown: Figures) -> str:
    timed = [row for row in shown.waits if row["p50"] is not None]
    rows = [
        (row["queue"], [row["p50"], row["p95"] - row["p50"], row["p99"] - row["p95"]])
        for row in timed
        if row["p50"] >= 0
    ]
    names = ("queue", "started", "p50", "p95", "p99", "longest", "skewed")
    chart = _legend(_WAITS) + bars(rows, _WAITS, "Waits of each queue", "s")
    drawn = chart if rows else ""
    if len(shown.waits) < shown.started:
        cut = (
            f"{len(shown.waits):,} of {shown.started:,} queues are shown: those that started most."
            " pipeline waits shows the others."
        )
        drawn = _note(cut) + drawn
    return drawn + columns(names, shown.waits, "Nothing was started.")


def _audit(shown: Figures) -> str:
    counts = [[verdict, f"{count:,}"] for verdict, count in shown.verdicts.items()]
    names = ("id", "verdict", "queue", "task", "node", "why")
    none = "Nothing was started twice, lost, or is unknown."
    return table(("verdict", "attempts"), counts, "") + columns(names, shown.troubles, none)


def _letters(shown: Figures) -> str:
    names = ("queue", "reason", "letters", "replayable", "started", "unknown")
    return columns(names, shown.letters, "No message went to the dead letters.")


def _costs(shown: Figures) -> str:
    names = ("task", "cost_key", "n", "mean", "estimate", "credibility", "seconds")
    return columns(names, shown.costs, "No task has finished.")


def _log(shown: Figures) -> str:
    state = shown.processes
    names = ("processes", "incomplete", "missing", "dropped", "silent")
    rows = [[name, f"{state[name]:,}"] for name in names]
    rows += [[f"quarantined: {row['reason']}", f"{row['count']:,}"] for row in shown.quarantine]
    return table(("of the log", ""), rows, "")


def _legend(parts: Sequence[str]) -> str:
    items = (f'<span class="key part{n}"></span>{escape(part)}' for n, part in enumerate(parts))
    return f'<p class="note">{" &emsp; ".join(items)}</p>'
