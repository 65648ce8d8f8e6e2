"""A queue's tags, which this worker keeps in step with others' as far as they are told of them."""

from collections.abc import Callable

from celery_fair.core.elsewhere import Elsewhere
from celery_fair.core.tags import Served, TenantTags
from celery_fair.worker.queues.keyed.exchange import Exchange
from celery_fair.worker.queues.keyed.known_lanes import is_nobodys

__all__ = ["SharedTags"]


class SharedTags(TenantTags):
    """Tells others what is served here, but for what is nobody's, and adds what they serve.

    Arguments:
        weight: says what a tenant weighs now.
        exchange: by which they tell each other.
    """

    __slots__ = ("_elsewhere", "_exchange")

    def __init__(self, weight: Callable[[str], float], exchange: Exchange) -> None:
        super().__init__(weight)
        self._exchange = exchange
        exchange.known = self.tenants.__contains__
        self._elsewhere = Elsewhere(self.tenants, is_nobodys)

    def serve(self, tenant: str, part: str, charge: float, more: bool) -> Served:
        served = super().serve(tenant, part, charge, more)
        self._elsewhere.served(charge)
        self._tell(tenant, charge)
        return served

    def settle(self, served: Served, difference: float) -> None:
        super().settle(served, difference)
        self._elsewhere.settled(difference)
        self._tell(served.tenant, difference)

    def hear(self) -> None:
        """Take in what others have served since it was last done."""
        heard = self._exchange.heard()
        if heard is not None:
            self._elsewhere.reported(*heard)

    def _tell(self, tenant: str, cost: float) -> None:
        if not is_nobodys(tenant):
            self._exchange.tell(tenant, cost)
