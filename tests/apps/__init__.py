"""Celery apps that tests run in worker processes of their own."""
