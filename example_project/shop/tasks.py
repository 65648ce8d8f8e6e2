"""What the shop does in the background. Each task takes a hundredth of a second."""

import time

from celery.utils.log import get_task_logger

from shop.celery import app

WORK = 0.01

logger = get_task_logger(__name__)


@app.task
def send_receipt(order: int) -> None:
    """A customer waits for it."""
    time.sleep(WORK)
    logger.debug("receipt for order %s sent", order)


@app.task
def make_report(month: int) -> None:
    """The accountant will look at it after lunch."""
    time.sleep(WORK)
    logger.debug("report of month %s made", month)


@app.task
def send_newsletter(customer: int) -> None:
    """Nobody waits for it."""
    time.sleep(WORK)
    logger.debug("newsletter for customer %s sent", customer)
