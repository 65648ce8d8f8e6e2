"""What a ledger says."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

from celery.exceptions import ImproperlyConfigured

from celery_fair.cli.doctor.findings import Finding, ok, weak, wrong
from celery_fair.cli.doctor.redis_checks import server_findings
from celery_fair.ledger import LedgerUnreachableError, ledger_at
from celery_fair.redis_client import client_at
from celery_fair.settings import Settings

__all__ = ["ledger_findings"]

_KEY = "celery-fair doctor"


def ledger_findings(settings: Settings, non_repeatable: bool) -> Iterator[Finding]:
    """Claim something, if there is a ledger, and give it up."""
    url = settings.ledger
    if url is None:
        if non_repeatable:
            yield ok("ledger", "none: whatever was delivered before is dead-lettered")
        return
    scheme = url.partition(":")[0]
    try:
        with closing(ledger_at(url, settings.ledger_expiry)) as ledger:
            claim = ledger.claim(_KEY, "doctor", doubt=True)
            ledger.forget(_KEY)
    except (ImproperlyConfigured, LedgerUnreachableError) as exc:
        yield wrong(
            "ledger", f"{scheme}://… does not answer: {exc}", "start it, or correct fair_ledger"
        )
        return
    since = datetime.fromtimestamp(claim.epoch, UTC)
    days = settings.ledger_expiry / 86400
    yield ok("ledger", f"{scheme}: complete since {since:%Y-%m-%d %H:%M:%S} UTC, for {days:g} days")
    if non_repeatable and settings.ledger_since is None:
        yield weak(
            "ledger: since",
            "proves nothing: a worker without it may have started what is not claimed. What was"
            " delivered before is dead-lettered",
            "when the last worker without the ledger has ended: fair_ledger_since ="
            f" '{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}'",
        )
    if abs(claim.now - datetime.now(UTC).timestamp()) > 1:
        yield weak(
            "ledger: clock",
            f"differs from this machine's by {claim.now - datetime.now(UTC).timestamp():.1f} s;"
            " five are allowed for between publishers and the ledger",
            "synchronise the clocks (NTP)",
        )
    if scheme in ("redis", "rediss", "unix"):
        with closing(client_at(url, "fair_ledger")) as client:
            yield from server_findings("ledger", client)
