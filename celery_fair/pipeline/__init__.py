"""The workers' event logs on Spark: what was fair, what waited, what was lost, what would help.

::

    logs ──▶ bronze ──▶ silver ──▶ gold
             events     attempts   fairness, waits, audit, costs
             quarantine backlog
                        processes
                        unread

Every table is a function from DataFrames to a DataFrame, whose last `select` is the table's schema.
`celery_fair.pipeline.warehouse` keeps them as Parquet. It needs the extra `spark`, but not Celery.
"""
