"""Random worlds whose truth is known, as an oracle for the audit.

::

    world.py    hosts, workers, messages: what happens, by chance, and who writes which record of it
    files.py    what is left of those records in files: cut, lost, late, twice
    truth.py    what may be said of each attempt, and what could be
    judged.py   what the pipeline says, of many worlds in one job
    __main__    ``python -m tests.worlds``

Nothing in the first three knows the pipeline, nor how it reasons. They share with the product the
format of the log alone.
"""
