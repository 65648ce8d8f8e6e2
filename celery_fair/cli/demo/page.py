"""The HTML file: everything in it, nothing loaded, readable in ten years and without a network."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from celery_fair.cli.demo import table
from celery_fair.cli.demo.chart import chart
from celery_fair.cli.demo.run import Result, Setup

__all__ = ["page"]

_CHART_NOTE = (
    "Each line is one queue's share within a few rounds of the scheduler, some 25th of the run; its"
    " dotted line is the target. The shaded part is left out of the figures."
)


def page(setup: Setup, results: Sequence[Result]) -> str:
    """Return the page for the runs of one command."""
    return _read("page.html").substitute(
        title="celery fair demo: shares over time",
        style=_read("page.css").template.strip(),
        introduction=escape(table.introduction(setup, results[0].workload.messages)) + ".",
        verdicts="\n".join(map(_verdict, results)),
        runs="\n".join(map(_run, results)),
        note=escape(table.NOTE),
    )


def _read(name: str) -> Template:
    return Template(files("celery_fair.cli.demo").joinpath(name).read_text(encoding="utf-8"))


def _verdict(result: Result) -> str:
    kind = "fair" if result.shares.fair else "unfair"
    return f'<p class="verdict {kind}">{escape(table.verdict(result))}</p>'


def _run(result: Result) -> str:
    workload, shares = result.workload, result.shares
    heads, *comparison = table.comparison(workload, shares, result.rate)
    return "\n".join(
        [
            f"<h2>{escape(table.title(workload))}</h2>",
            chart(result),
            f'<p class="note">{escape(_CHART_NOTE)}</p>',
            _table(table.headings(workload), table.rows(workload, shares)),
            _table(heads, comparison),
        ]
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>'
        "</table></div>"
    )
