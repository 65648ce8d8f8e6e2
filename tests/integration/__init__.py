"""What an operator of Celery uses, on a fair worker and real brokers."""
