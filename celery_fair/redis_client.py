"""Redis: a client for callers that cannot wait long."""

from collections.abc import Callable
from typing import Any

from celery.exceptions import ImproperlyConfigured

from celery_fair.settings.values import unread

_TIMEOUT = 0.5  # seconds; an event loop waits for the answer


def client_at(url: str, setting: str) -> Any:
    """Return a client that gives up soon, and does not try again by itself.

    Raises:
        celery.exceptions.ImproperlyConfigured: none can be made for the URL.
    """
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        client = Redis.from_url(
            url,
            socket_timeout=_TIMEOUT,
            socket_connect_timeout=_TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
        # An option that it does not know would be refused no sooner than when it connects.
        client.connection_pool.connection_class(**client.connection_pool.connection_kwargs)
    except Exception as exc:  # noqa: BLE001 - a RedisError, too: it has no name if the import fails
        missing = f"{exc}: pip install 'celery-fair[redis]'"
        why = missing if isinstance(exc, ImportError) else unread(url, exc)
        raise ImproperlyConfigured(
            f"{setting}: no client of Redis can be made for it: {why}"
        ) from None
    return client


def asked(
    question: Callable[..., Any], unreachable: type[Exception], *args: Any, **kwargs: Any
) -> Any:
    """Return what a command or a script of a client returns.

    Raises:
        unreachable: the server does not answer, or refuses it.
    """
    from redis.exceptions import RedisError

    try:
        return question(*args, **kwargs)
    except (RedisError, OSError) as exc:
        raise unreachable(str(exc)) from exc
