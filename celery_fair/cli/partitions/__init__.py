"""``celery -A app fair partitions status | create``."""
