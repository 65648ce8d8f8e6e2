"""Faults that are put into a copy of the product, one at a time; a test must notice each.

A promise is held by a test only if the test fails when the promise is broken. So each promise has
its fault here, written down in ``*.toml``::

    [[fault]]
    name = "what is wrong with the product now"
    rows = ["F1", "guarantees: SIGTERM"]       # whose promise it breaks
    file = "celery_fair/worker/launch/once.py"
    find = "what stands there, exactly once"
    replace = "what stands there now"
    tests = ["tests/once/test_once.py::test_that_notices"]

Several edits stand in ``[[fault.edit]]`` tables, each with file, find and replace. A newline right
after the opening quotes is TOML's own and does not count.

The words here::

    fault.py       a fault, read from its file; which rows have one
    copied.py      a copy of the tree, with a fault in it
    slot.py        where one fault after the other is tried: a copy, and processes that are warm
    trial.py       the tests of a fault, run in a copy, and what came of it
    __main__.py    the command: ``make mutants``

A fault is *killed* if one of its tests fails, *survives* if they pass, and is *void* if it cannot
be tried: its text is not there any more, or its tests do not even begin. Without any fault all
these tests must pass, in the same kind of copy, or nothing is proven.
"""
