"""Write the table of dispositions into the guide on non-repeatable tasks.

    python scripts/disposition_table.py [--check]

With --check, say only whether the guide has it.
"""

import sys
from pathlib import Path

from celery_fair.core.disposition import TABLE, Delivery, Policy

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "non-repeatable.md"
BEGIN, END = "<!-- disposition table: made by scripts/disposition_table.py -->", "<!-- end -->"


def table() -> str:
    """Return the table as Markdown."""
    rows = [["delivery", "", *(policy.value for policy in Policy)], ["---"] * (2 + len(Policy))]
    for delivery in Delivery:
        actions = (TABLE[delivery, policy].value for policy in Policy)
        rows.append([delivery.value, delivery.meaning, *actions])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def rewritten(page: str) -> str:
    """Return the page with the table as it is now."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{table()}\n\n{END}{tail}"


if __name__ == "__main__":
    before = PAGE.read_text()
    after = rewritten(before)
    if "--check" in sys.argv[1:]:
        sys.exit(f"{PAGE} is not up to date: python {sys.argv[0]}" if before != after else 0)
    PAGE.write_text(after)
