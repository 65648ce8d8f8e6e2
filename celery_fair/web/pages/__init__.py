"""The pages.

A function whose name ends in `_page` or `_part` returns what fills in a template: of a page, or of
what changes in it while somebody looks, for the page as it is loaded and for each of its updates.
"""
