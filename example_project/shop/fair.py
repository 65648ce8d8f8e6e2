"""The same app, made fair. In an app of your own, these lines stand where the app is made."""

from celery_fair import install
from shop.celery import app

app.conf.fair_queues = {
    "interactive": {"quantum": 40},
    "reports": {"quantum": 10},
    "bulk": {"quantum": 4},
}
install(app)
