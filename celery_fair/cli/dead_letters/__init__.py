"""``celery -A app fair dead-letters count``, ``list``, ``show``, ``replay``, ``purge``."""
