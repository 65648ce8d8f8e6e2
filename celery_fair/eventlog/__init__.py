"""The event log: what a worker writes down of each message, for `celery_fair.pipeline`.

::

    records.py    the schema
"""
