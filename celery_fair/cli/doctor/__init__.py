"""``celery -A app fair doctor``: what holds for an app, and what weakens it.

::

    findings.py       one line of the report
    app_checks.py     what the app says: settings, tasks, versions
    amqp_checks.py    what a live RabbitMQ says
    redis_checks.py   what a live Redis says, as broker or as ledger
    sqs_checks.py     what SQS says
    visibility.py     how long either of them lets a message be held
    ledger_checks.py  what a ledger says
    key_checks.py     what holds for queues that are shared by key
    worker_checks.py  what the workers say that run now
    command.py        the command
"""
