"""``celery -A app fair dead-letters list``, ``show``, ``replay``, ``purge``."""
