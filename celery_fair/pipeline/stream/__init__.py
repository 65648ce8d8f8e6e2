"""Alerts while the workers run: Structured Streaming over the folder of their logs.

::

    watches.py   what is remembered of each subject, and when that is an alert
    alerts.py    which subjects there are; the query, its checkpoint, its output

A batch run over the same logs is authoritative; this is early. It sees a record when its file is
sealed, and judges by what it has seen.
"""
