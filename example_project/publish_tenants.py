"""Create a backlog of one shop's newsletters, and a few of another shop behind it."""

import argparse

from shop.tasks import send_newsletter
from shop.tenants import app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=3000, help="of acme (default 3000)")
    backlog = {"acme": parser.parse_args().messages, "globex": 10}
    with app.producer_or_acquire() as producer:
        for tenant, messages in backlog.items():
            for number in range(messages):
                send_newsletter.apply_async((number,), producer=producer, fair_key=tenant)
            print(f"published {messages:,} newsletters of {tenant}")


if __name__ == "__main__":
    main()
