"""One HTML file over everything: shares, waits, starvation, audit, dead letters, costs.

::

    figures.py   what is shown, of summary size
    charts.py    pictures, as SVG
    page.py      the file
"""
