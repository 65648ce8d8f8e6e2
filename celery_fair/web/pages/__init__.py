"""The pages.

A class for each kind of thing. Its methods fill in a template each, of a page or of what changes in
it while somebody looks: for the page as it is loaded, and for each of its updates.
"""
