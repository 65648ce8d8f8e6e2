"""What workers know of the keys of a queue on RabbitMQ, where the broker does not."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

from celery_fair.brokers.keyed.lists import Backlog
from celery_fair.brokers.keyed.store import KeyStore
from celery_fair.settings import Settings


def backlogs(
    settings: Settings,
    queue: str,
    filled: Mapping[int, int],
    seen: Collection[Mapping[str, Any]],
    tenants: Collection[str] = (),
) -> list[Backlog]:
    """Return the tenants that lanes are of, and those that were served.

    Arguments:
        filled: how many messages wait in lanes, by their numbers.
        seen: what workers have answered.
        tenants: these alone.

    Raises:
        redis.RedisError: there is a store of keys, and it does not answer.
    """
    waiting: Counter[str] = Counter()
    parts: defaultdict[str, set[str]] = defaultdict(set)
    for number, (tenant, part) in _owners(seen).items():
        if number in filled:
            waiting[tenant] += filled[number]
            parts[tenant].add(part)
    started, running = (_sums(seen, name) for name in ("started", "running"))
    weights, ahead = (_last(seen, name) for name in ("weights", "ahead"))
    keyed = settings.keys[queue]
    found = [
        Backlog(
            tenant=tenant,
            weight=weights.get(tenant, keyed.weights.get(tenant, keyed.weight)),
            waiting=waiting[tenant],
            parts=len(parts[tenant]),
            ahead=max(0.0, ahead.get(tenant, 0.0)),
            started=started[tenant],
            running=running[tenant],
            limits=keyed.own_limits.get(tenant, keyed.limits),
            held=None,
            before=None,
        )
        for tenant in (tenants or sorted({*waiting, *started}))
    ]
    return _limited(settings, queue, found)


def unknown(filled: Mapping[int, int], seen: Collection[Mapping[str, Any]]) -> int:
    """Return how many messages wait in lanes of which nobody knows whose they are."""
    known = {number for each in seen for number in each["known"]}
    return sum(depth for number, depth in filled.items() if number not in known)


def _owners(seen: Collection[Mapping[str, Any]]) -> dict[int, tuple[str, str]]:
    """Return whose message was in a lane last, as most say who know."""
    said: defaultdict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
    for each in seen:
        for number, tenant, part in each["lanes"]:
            said[number][tenant, part] += 1
    return {number: votes.most_common(1)[0][0] for number, votes in said.items()}


def _sums(seen: Collection[Mapping[str, Any]], name: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in seen:
        total.update(each[name])
    return total


def _last(seen: Collection[Mapping[str, Any]], name: str) -> dict[str, float]:
    return {tenant: value for each in seen for tenant, value in each[name].items()}


def _limited(settings: Settings, queue: str, found: list[Backlog]) -> list[Backlog]:
    """Add what a store knows: limits that were set live, and who is held."""
    if settings.key_store is None or not found:
        return found
    with closing(KeyStore(settings.key_store)) as store:
        _, _, known = store.lists(settings.keys[queue]).look(*[each.tenant for each in found])
    return [
        each._replace(
            weight=kept.weight,
            limits=kept.limits,
            held=kept.held,
            running=each.running if kept.limits.max_in_flight is None else kept.running,
        )
        for each, kept in zip(found, known, strict=True)
    ]
