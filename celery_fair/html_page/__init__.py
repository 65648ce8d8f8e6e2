"""An HTML file with everything in it: it loads nothing, and can be read in ten years."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

__all__ = ["page", "table", "verdict"]


def page(title: str, introduction: str, style: str, body: str) -> str:
    """Return a page.

    Arguments:
        introduction: text.
        style: the page's own CSS, after that of all pages.
        body: HTML.
    """
    return Template(_read("page.html")).substitute(
        title=escape(title),
        introduction=escape(introduction),
        style=_read("page.css") + style.strip(),
        body=body,
    )


def _read(name: str) -> str:
    return files("celery_fair.html_page").joinpath(name).read_text("utf-8")


def verdict(good: bool, text: str) -> str:
    """Return a line in the colour of good news or of bad."""
    return f'<p class="verdict {"good" if good else "bad"}">{escape(text)}</p>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>'
        "</table></div>"
    )
