"""``fair doctor``."""

from collections import Counter
from collections.abc import Iterator
from shutil import get_terminal_size

import click

from celery_fair.cli.options import Outcome, Seconds, outcome, the_app, timeout_option
from celery_fair.operate.doctor import findings
from celery_fair.operate.doctor.findings import LEVELS, OK, WEAK, WRONG, Finding
from celery_fair.operate.text import escaped

_COLOURS = {OK: "green", WEAK: "yellow", WRONG: "red"}
_WIDTH, _NARROW = 100, 60


@click.command()
@click.option("--strict", is_flag=True, help="Exit with 1 for what is weak, too.")
@timeout_option(Seconds(0, 3600), "Seconds to wait for workers' answers; 0: ask none.")
@outcome("Print the findings as JSON.")
def doctor(strict: bool, timeout: float) -> Outcome:
    """Say what weakens the app's promises, and how to mend it.

    Reads the app's settings and tasks, the live broker, the ledger and the store of keys, asks the
    workers that run, and changes nothing there but for a claim of its own, which it gives up, and a
    queue of its own, which it deletes; with partitions, a Redis that has no name yet is given one.
    Each line is

    \b
    ok      as it should be
    weak    it works, and promises less than it could
    wrong   it does not work, or does not do what was asked for

    and for the latter two, after the arrow, what mends it.

    \b
    Examples:
      celery -A shop fair doctor
      celery -A shop fair doctor --strict --json

    Exit status: 0; 1 if something is wrong, with --strict also if something is weak.
    """
    found = list(findings(the_app(), timeout))
    bad = {WRONG, WEAK} if strict else {WRONG}
    document = [finding._asdict() for finding in found]
    return Outcome(document, _lines(found), all(finding.level not in bad for finding in found))


def _lines(found: list[Finding]) -> Iterator[str]:
    wide = max(_NARROW, min(_WIDTH, get_terminal_size((_WIDTH, 0)).columns))
    indent = " " * 7
    for level, *said in found:
        topic, text, mend = map(escaped, said)
        lines = click.wrap_text(f"{topic}: {text}", wide, indent, indent).lstrip()
        yield f"{click.style(f'{level:<7}', fg=_COLOURS[level])}{lines}"
        if mend:
            yield click.wrap_text(f"→ {mend}", wide, indent, indent + "  ")
    counts = Counter(finding.level for finding in found)
    yield ", ".join(f"{counts[level]} {level}" for level in LEVELS)
