"""One HTML file over everything: shares, waits, starvation, audit, dead letters, costs.

::

    figures.py   what is shown, of summary size
    page.py      the file: words, and where everything of a chart is
    *.html       what it looks like
"""
