"""The figures as text: the rows, headings and sentences that every output shows."""

from celery_fair.cli.demo.shares.published import TABLES
from celery_fair.cli.demo.shares.shares import TOLERANCE, Result, Shares
from celery_fair.cli.demo.shares.workload import COST, QUANTA, QUEUES, Workload
from celery_fair.cli.demo.worker import Setup

__all__ = ["NOTE", "comparison", "figures", "introduction", "title", "verdict"]

NOTE = (
    "Published: the figures that a consumer with equal windows got from the same queues, with"
    " 40,000 messages each and a stop at 200,000. The totals differ, so counts are shown as shares"
    " of their total. Ours leave out the first tenth of the starts, while windows fill; the"
    " published ones leave out nothing. Rates are those of different machines and clients."
)


def introduction(setup: Setup, messages: int) -> str:
    """Return what is about to be done."""
    return (
        f"{len(QUEUES)} queues with quanta {QUANTA[0]}, {QUANTA[1]}, … {QUANTA[-1]};"
        f" {messages:,} messages each, of cost {COST}; a {setup.pool} worker with concurrency"
        f" {setup.concurrency} on {setup.broker}"
    )


def title(workload: Workload) -> str:
    """Return the name of a run."""
    return f"{workload.work:,} µs of work per task, stop at {workload.stop:,} starts"


def figures(workload: Workload, shares: Shares) -> list[list[str]]:
    """Return one row of text for each queue, under a row of heads."""
    table = TABLES.get(workload.work)
    heads = ["queue", "quantum", "count", "target", "share", "error"]
    return [
        heads + ([f"published ({table.name})", "its error"] if table else []),
        *(
            [
                queue,
                str(QUANTA[number]),
                f"{shares.counts[number]:,}",
                _percent(shares.targets[number]),
                *_share_and_error(shares, number),
                *(_share_and_error(table.shares, number) if table else ()),
            ]
            for number, queue in enumerate(QUEUES)
        ),
    ]


def _share_and_error(shares: Shares, number: int) -> tuple[str, str]:
    if not shares.total:
        return "–", "–"
    return _percent(shares.achieved[number]), f"{100 * shares.errors[number]:+.1f} %"


def _percent(part: float) -> str:
    return f"{100 * part:.2f} %"


def comparison(workload: Workload, shares: Shares, rate: float) -> list[list[str]]:
    """Return rows of text that set a whole run beside the published one, under a row of heads."""
    table = TABLES.get(workload.work)
    ours = ["here", *_summary(shares, rate)]
    theirs = [[f"published, {table.name}", *_summary(table.shares, table.rate)]] if table else []
    return [["", "largest error", "p9/p0 (ideal 10)", "Jain index", "tasks/s"], ours, *theirs]


def _summary(shares: Shares, rate: float) -> list[str]:
    ratio = "–" if shares.ratio is None else f"{shares.ratio:.2f}"
    return [f"{100 * shares.max_error:.1f} %", ratio, f"{shares.jain:.4f}", f"{rate:,.0f}"]


def verdict(result: Result) -> str:
    """Return the run's verdict in a sentence."""
    shares = result.shares
    ratio = "p0 got nothing" if shares.ratio is None else f"p9/p0 = {shares.ratio:.2f}"
    return (
        f"{'FAIR' if shares.fair else 'NOT FAIR'} at {result.workload.work:,} µs:"
        f" max |share/target − 1| = {100 * shares.max_error:.1f} %"
        f" (allowed: {100 * TOLERANCE:g} %{_or_one_round(shares)}), {ratio}"
    )


def _or_one_round(shares: Shares) -> str:
    coarse = shares.fair and shares.max_error > TOLERANCE
    return ", or one round in so short a run" if coarse else ""
