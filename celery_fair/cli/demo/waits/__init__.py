"""How long a password mail waits behind bulk work: Celery's own worker, then a fair one."""
