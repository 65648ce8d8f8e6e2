"""The event log: what a worker writes down of each message, for `celery_fair.pipeline`.

::

    records.py    the schema
    log_file.py   one file: lock, append, seal
    writer.py     a process's log: number, write, rotate
    sweeper.py    the files of processes that are gone

The files' names are the contract with the pipeline: ``<folder>/<host>/<file>.jsonl``, each file
from one process, with ``_open-…`` in front of its name while it is being written.
"""

from celery_fair.eventlog.sweeper import sweep
from celery_fair.eventlog.writer import EventLog, Policy, host_folder, quoted

__all__ = ["EventLog", "Policy", "host_folder", "quoted", "sweep"]
