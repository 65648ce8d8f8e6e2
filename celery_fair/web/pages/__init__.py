"""The pages.

What changes while somebody looks is a *part*: a template and what fills it in, for the page as it
is loaded and for each of its updates (`live`).
"""
