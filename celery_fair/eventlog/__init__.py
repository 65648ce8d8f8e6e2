"""The event log: what a worker writes down of each message, for `celery_fair.pipeline`.

::

    records.py    the schema
    log_file.py   one file: lock, append, seal
    writer.py     a process's log: number, write, rotate
    sweeper.py    the files of processes that are gone

The settings are the pipeline's contract with the disk: ``<folder>/<host>/<file>.jsonl``, a file of
one process each, and ``_open-…`` in front while it is written.
"""

from celery_fair.eventlog.sweeper import sweep
from celery_fair.eventlog.writer import EventLog, Policy, quoted

__all__ = ["EventLog", "Policy", "quoted", "sweep"]
