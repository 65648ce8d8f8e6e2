"""The worker's app: pytest-celery fills in the three lines that it knows."""

from celery import Celery

from celery_fair import FairConsumerStep

imports = None

app = Celery("celery_test_app")
config = None

if config:
    app.config_from_object(config)

app.steps["consumer"].add(FairConsumerStep)
