"""The HTML file: everything in it, nothing loaded, readable in ten years and without a network."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from celery_fair import html_page
from celery_fair.cli.demo.shares import table
from celery_fair.cli.demo.shares.chart import chart
from celery_fair.cli.demo.shares.shares import Result
from celery_fair.cli.demo.worker import Setup

__all__ = ["page"]

_CHART_NOTE = (
    "Each line is one queue's share within a few rounds of the scheduler, some 25th of the run; its"
    " dotted line is the target. The shaded part is left out of the figures."
)


def page(setup: Setup, results: Sequence[Result]) -> str:
    """Return the page for the runs of one command."""
    note = f'<p class="note">{escape(table.NOTE)}</p>'
    return html_page.page(
        title="celery fair demo --shares: shares over time",
        introduction=f"{table.introduction(setup, results[0].workload.messages)}.",
        style=files("celery_fair.cli.demo.shares")
        .joinpath("chart.css")
        .read_text(encoding="utf-8"),
        body="\n".join([*map(_verdict, results), *map(_run, results), note]),
    )


def _verdict(result: Result) -> str:
    return html_page.verdict("fair" if result.shares.fair else "unfair", table.verdict(result))


def _run(result: Result) -> str:
    workload, shares = result.workload, result.shares
    heads, *rows = table.figures(workload, shares)
    summary_heads, *summaries = table.comparison(workload, shares, result.rate)
    return "\n".join(
        [
            f"<h2>{escape(table.title(workload))}</h2>",
            chart(result),
            f'<p class="note">{escape(_CHART_NOTE)}</p>',
            html_page.table(heads, rows),
            html_page.table(summary_heads, summaries),
        ]
    )
