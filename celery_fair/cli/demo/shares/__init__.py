"""``celery fair demo --shares``: what each of ten queues gets, beside the published figures."""
