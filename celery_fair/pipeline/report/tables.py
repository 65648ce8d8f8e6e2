"""The report's tables."""

from collections.abc import Sequence
from html import escape

from celery_fair import html_page
from celery_fair.pipeline.report.figures import Row

__all__ = ["columns", "number", "percent", "table"]


def number(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def percent(value: float | None, signed: bool = False) -> str:
    if value is None:
        return "–"
    return f"{value:+.2%}" if signed else f"{value:.2%}"


def columns(names: Sequence[str], rows: Sequence[Row], empty: str) -> str:
    return table(names, [[number(row[name]) for name in names] for row in rows], empty)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> str:
    if not rows:
        return f'<p class="note">{escape(empty)}</p>'
    return html_page.table(heads, rows)
