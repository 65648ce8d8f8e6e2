"""``celery -A app fair partitions status | remove | add | rebalance | create``."""
