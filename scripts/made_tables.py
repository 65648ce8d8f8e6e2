"""Write the tables into the documentation that are made from code.

    python scripts/made_tables.py [--check]

With --check, say only whether the documentation has them.
"""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import throughput  # noqa: E402
from celery_fair.core.disposition import TABLE, Delivery, Policy  # noqa: E402
from celery_fair.eventlog.records import FIELDS, KINDS  # noqa: E402
from celery_fair.settings import QueueOptions, Settings  # noqa: E402
from celery_fair.settings.table import table as entries  # noqa: E402
from tests.faults.fault import Fault, Loss  # noqa: E402
from tests.faults.matrix import FAULTS  # noqa: E402
from tests.faults.quick import tried  # noqa: E402
from tests.groups.faults import FAULTS as GROUP_FAULTS  # noqa: E402
from tests.matrix import page as matrix  # noqa: E402

END = "<!-- end -->"


def dispositions() -> Iterator[list[str]]:
    """What becomes of a message whose turn has come."""
    yield ["delivery", "", *(policy.value for policy in Policy)]
    for delivery in Delivery:
        actions = (TABLE[delivery, policy].value for policy in Policy)
        yield [delivery.value, delivery.meaning, *actions]


def faults() -> Iterator[list[str]]:
    """What each fault of the matrix may cost at the most."""
    yield [
        *("fault", "broker", '`"before"`', "with `confirm`", '`"after"`', "dead letters"),
        "`make test` tries",
    ]
    for name, fault in FAULTS.items():
        for broker in fault.brokers:
            losses = (lost(fault.loss(broker, (t,))) for t in ("before", "confirmed", "after"))
            buries = "perhaps" if fault.buries else "none"
            yield [name, brokers(fault, broker), *losses, buries, "; ".join(tried(name, broker))]


def group_faults() -> Iterator[list[str]]:
    """What each fault does to a group."""
    yield ["fault", "what happens"]
    for fault in GROUP_FAULTS:
        yield [fault.name, fault.happens]


def records() -> Iterator[list[str]]:
    """What is in the event log."""
    yield ["record", "field", "type", ""]
    for kind, fields in {"all": FIELDS, **KINDS}.items():
        for name, (type_, meaning) in fields.items():
            yield [kind, f"`{name}`", type_, meaning]


def settings() -> Iterator[list[str]]:
    """What there is to set."""
    yield ["setting", ""]
    yield from described(Settings, "fair_")


def options() -> Iterator[list[str]]:
    """What there is to set of one queue."""
    yield ["option", ""]
    yield from described(QueueOptions)


def described(kind: type, prefix: str = "") -> Iterator[list[str]]:
    """The settings of a class, each with the text below its field."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    said = {}
    for line, below in pairwise(body.body):
        match line, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                said[name] = text
    for name, entry in entries(kind).items():
        yield [f"[`{prefix}{name}`](#{prefix}{name})", said[entry.field]]


def lost(loss: Loss) -> str:
    """In words."""
    if loss.everything:
        return "what was in it"
    parts = ["what ran"] * bool(loss.running) + ["one per cut"] * bool(loss.answers)
    return " and ".join(parts) or "none"


def brokers(fault: Fault, broker: str) -> str:
    """With the types of its queues."""
    return "Redis" if broker == "redis" else f"RabbitMQ, {' and '.join(fault.queue_types)}"


TABLES: dict[str, tuple[Callable[[], Iterator[list[str]]], str]] = {
    "dispositions": (dispositions, "docs/how-to/non-repeatable.md"),
    "faults": (faults, "docs/guarantees.md"),
    "group faults": (group_faults, "docs/partition-groups.md"),
    "servers in the matrix": (lambda: matrix.versions(matrix.kept()), "docs/matrix.md"),
    "the matrix": (lambda: matrix.rows(matrix.kept()), "docs/matrix.md"),
    "throughput": (lambda: throughput.cells(throughput.kept()), "benchmarks/README.md"),
    "ratios": (lambda: throughput.ratios(throughput.kept()), "docs/fast-path.md"),
    "records": (records, "docs/how-to/event-log.md"),
    "settings": (settings, "docs/settings.md"),
    "options": (options, "docs/settings.md"),
}


def markdown(rows: Iterator[list[str]]) -> str:
    """Return rows as a table; the first has the headings."""
    head, *others = rows
    lines = [head, ["---"] * len(head), *others]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rewritten(page: str, name: str, table: str) -> str:
    """Return a page with the table as it is now."""
    begin = f"<!-- table of {name}: made by scripts/made_tables.py -->"
    head, found, rest = page.partition(begin)
    if not found:
        sys.exit(f"no page has {begin}")
    _, _, tail = rest.partition(END)
    return f"{head}{begin}\n\n{table}\n\n{END}{tail}"


def main() -> None:
    old = []
    for name, (rows, path) in TABLES.items():
        page = ROOT / path
        before = page.read_text()
        after = rewritten(before, name, markdown(rows()))
        if before != after and "--check" in sys.argv[1:]:
            old.append(path)
        elif before != after:
            page.write_text(after)
    if old:
        sys.exit(f"not up to date: {', '.join(old)}; python scripts/made_tables.py")


if __name__ == "__main__":
    main()
