"""A few bodies through pytest-celery, on local processes and on containers."""
