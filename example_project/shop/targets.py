"""The same app, which says what messages may wait, in place of quanta."""

from celery_fair import install
from shop.celery import app

app.conf.fair_queues = {
    "interactive": {"target": "95% < 0.5s"},
    "reports": {"target": "99% < 5min"},
    "bulk": {},
}
install(app)
