"""The demo: `celery fair demo`."""
