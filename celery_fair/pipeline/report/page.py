"""The HTML file: everything in it, nothing loaded."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template

from celery_fair.pipeline.gold.audit import VERDICTS
from celery_fair.pipeline.key_names import named
from celery_fair.pipeline.report.charts import Series, bars, lines
from celery_fair.pipeline.report.figures import Figures, KeyFigures, Row

_STATES = ("ready", "starved by the broker", "held by its leash or cap")
_WAITS = ("half of them (p50)", "up to p95", "up to p99")
_PARTS = ("share", "target", "deviation", "share_of_seconds", "in_flight", "part_of_queue")
"""The columns that are parts of a whole."""

_SIGNED = "deviation"
_KEY = "key"
"""The column of a name that is made of others."""


def page(shown: Figures) -> str:
    """Return the report."""
    return Template(_read("page.html")).substitute(
        title="celery-fair: what the workers did",
        introduction=escape(_introduction(shown)),
        style=_read("page.css") + _read("charts.css").strip(),
        body=Template(_read("body.html")).substitute(
            summary=_summary(shown),
            shares=_shares(shown),
            states=_states(shown),
            capacity=_capacity(shown),
            waits=_waits(shown),
            audit=_audit(shown),
            letters=_table(
                "queue, reason, letters, replayable, started, unknown",
                shown.letters,
                "No message went to the dead letters.",
            ),
            costs=_table(
                "task, cost_key, n, mean, estimate, credibility, seconds",
                shown.costs,
                "No task has finished.",
            ),
            by_key="" if shown.by_key is None else _by_key(shown.by_key),
            log=_log(shown),
        ),
    )


def _read(name: str) -> str:
    return files("celery_fair.pipeline.report").joinpath(name).read_text("utf-8")


# Sections ---------------------------------------------------------------------


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
    verdicts = {
        f"Unfair: {shown.unfair:,} of {shown.judged:,} queues.": shown.unfair,
        f"Started twice: {twice:,}.": twice,
        f"Started and lost: {lost:,}.": lost,
    }
    if shown.by_key is not None:
        keys = shown.by_key.unfair
        verdicts[f"Unfair: {keys:,} keys of queues that are shared by key."] = keys
    return "\n".join(_verdict(not found, text) for text, found in verdicts.items())


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
    rows = [{**row, "verdicts": _counts(row["verdicts"])} for row in shown.queues]
    return (
        _left_out(
            len({row["queue"] for row in rows}),
            shown.judged,
            "the unfair ones first, then those with the most seconds of work. pipeline fairness",
        )
        + _lines(series, "Share of each queue", shown)
        + _table(
            "queue, quantum, of: unit, share, target, off by: deviation,"
            " of seconds: share_of_seconds, verdict, intervals that are: verdicts",
            rows,
            "No two queues had work at one time.",
        )
    )


def _counts(verdicts: dict[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(verdicts.items()))


def _states(shown: Figures) -> str:
    names = ("ready_seconds", "starved_seconds", "held_seconds")
    rows = [(queue["queue"], [queue[name] for name in names]) for queue in shown.queues]
    return _legend(_STATES) + bars(rows, _STATES, "Time in each state", "s")


def _capacity(shown: Figures) -> str:
    points = [(row["since"], row["utilisation"]) for row in shown.capacity]
    series = [Series("slots in use", points, [])] if points else []
    chart = _lines(series, "Part of the slots that was in use", shown)
    return chart or _note("No worker said how many slots it has.")


def _waits(shown: Figures) -> str:
    rows = [
        (row["queue"], [row["p50"], row["p95"] - row["p50"], row["p99"] - row["p95"]])
        for row in shown.waits
        if row["p50"] is not None and row["p50"] >= 0
    ]
    chart = _legend(_WAITS) + bars(rows, _WAITS, "Waits of each queue", "s")
    return (
        _left_out(len(shown.waits), shown.started, "those that started most. pipeline waits")
        + (chart if rows else "")
        + _table(
            "queue, started, p50, p95, p99, longest, skewed", shown.waits, "Nothing was started."
        )
    )


def _audit(shown: Figures) -> str:
    counts = [{"verdict": name, "attempts": f"{n:,}"} for name, n in shown.verdicts.items()]
    none = "Nothing was started twice, lost, or is unknown."
    return _table("verdict, attempts", counts) + _table(
        "id, verdict, queue, task, node, why", shown.troubles, none
    )


def _by_key(shown: KeyFigures) -> str:
    verdicts = ", ".join(name.lower() for name in VERDICTS)
    return Template(_read("by_key.html")).substitute(
        shares=_table(
            "queue, key, weight, of: unit, served, share, target, off by: deviation, seconds,"
            " verdict",
            shown.keys,
            "No two keys had something waiting at one time.",
        ),
        first_waits=_table(
            "queue, started, p50, p95, p99, longest", shown.first_waits, "No publisher wrote when."
        ),
        costs=_table(
            "queue, key, n, mean, longest, seconds, of the queue: part_of_queue",
            shown.costs,
            "No task that has a key has finished.",
        ),
        audit=_table(f"queue, key, attempts, {verdicts}", shown.audit),
    )


def _log(shown: Figures) -> str:
    names = ("processes", "incomplete", "missing", "dropped", "silent")
    counts = {name: shown.processes[name] for name in names}
    counts |= {f"quarantined: {row['reason']}": row["count"] for row in shown.quarantine}
    return _drawn(("of the log", ""), [[name, f"{n:,}"] for name, n in counts.items()])


# Parts of them ----------------------------------------------------------------


def _lines(series: Sequence[Series], label: str, shown: Figures) -> str:
    """A chart, and of which length its intervals are, if not of that which was judged."""
    chart = lines(series, label, 1.5 * shown.drawn)
    if chart and shown.drawn != shown.interval:
        chart += _note(f"Drawn in intervals of {shown.drawn:g} s.")
    return chart


def _left_out(there: int, of: int, which: str) -> str:
    """That queues are left out, if any are."""
    if there >= of:
        return ""
    return _note(f"{there:,} of {of:,} queues are shown: {which} shows the others.")


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _legend(parts: Sequence[str]) -> str:
    items = (f'<span class="key part{n}"></span>{escape(part)}' for n, part in enumerate(parts))
    return f'<p class="note">{" &emsp; ".join(items)}</p>'


def _table(columns: str, rows: Sequence[Row], empty: str = "") -> str:
    """Return a table; where there are no rows, that.

    Arguments:
        columns: their names in the rows, and before that, where it is another, what they are
            called: "queue, off by: deviation".
    """
    if not rows:
        return _note(empty)
    heads, names = zip(*(_head(word) for word in columns.split(", ")), strict=True)
    return _drawn(heads, [[_cell(row, name) for name in names] for row in rows])


def _head(word: str) -> tuple[str, str]:
    head, _, name = word.partition(": ")
    return head, name or head


def _cell(row: Row, name: str) -> str:
    value = named(row) if name == _KEY else row[name]
    if value is None:
        return "–"
    if name in _PARTS:
        return f"{value:+.2%}" if name == _SIGNED else f"{value:.2%}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _verdict(good: bool, text: str) -> str:
    """Return a line in the colour of good news or of bad."""
    return f'<p class="verdict {"good" if good else "bad"}">{escape(text)}</p>'


def _drawn(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>'
        "</table></div>"
    )
