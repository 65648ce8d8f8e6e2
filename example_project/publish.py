"""Create a backlog: so many messages on each of the shop's queues."""

import argparse

from shop.celery import app
from shop.tasks import make_report, send_newsletter, send_receipt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=3000, help="for each queue (default 3000)")
    messages = parser.parse_args().messages
    with app.producer_or_acquire() as producer:
        for number in range(messages):
            for task in (send_receipt, make_report, send_newsletter):
                task.apply_async((number,), producer=producer)
    print(f"published {messages:,} messages to each queue")


if __name__ == "__main__":
    main()
