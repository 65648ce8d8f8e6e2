"""The ledger in Redis."""

from importlib.resources import files
from typing import Any

from celery_fair.ledger import Claim, Ledger, LedgerUnreachableError
from celery_fair.redis_client import asked, client_at

_EPOCH = "celery-fair:ledger"


class RedisLedger(Ledger):
    """A key for each claim, which expires by itself."""

    def __init__(self, url: str, expiry: float) -> None:
        super().__init__(url, expiry)
        self._client: Any = client_at(url, "fair_ledger")
        source = files("celery_fair.ledger").joinpath("claim.lua").read_text()
        self._script = self._client.register_script(source)

    def claim(self, key: str, owner: str, doubt: bool, late: str = "") -> Claim:
        arguments = [owner, max(1, int(self.expiry * 1000)), int(doubt), late]
        had, epoch, now = asked(
            self._script, LedgerUnreachableError, keys=[_name(key), _EPOCH], args=arguments
        )
        return Claim(had.decode(errors="replace") or None, float(epoch), float(now))

    def forget(self, key: str) -> None:
        asked(self._client.delete, LedgerUnreachableError, _name(key))

    def renew(self) -> None:
        asked(self._client.delete, LedgerUnreachableError, _EPOCH)

    def close(self) -> None:
        self._client.close()


def _name(key: str) -> str:
    return f"celery-fair:claim:{key}"
