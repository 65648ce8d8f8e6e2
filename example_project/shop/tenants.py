"""The same app, whose newsletters are shared by the shops that send them; on Redis."""

from celery_fair import install
from shop.celery import app

app.conf.fair_keys = {"bulk": {}}
install(app)
