"""A broker that does not answer, said in a way that helps."""

from kombu import Connection

__all__ = ["missing_client", "trouble_with"]


def trouble_with(connection: Connection, where: str) -> str | None:
    """Connect; return None, or what went wrong and what to do.

    Arguments:
        where: names what the connection's URL was taken from.
    """
    broker = connection.as_uri()
    try:
        connection.connect()
        connection.default_channel  # noqa: B018 - Redis connects for its first channel
    except ImportError as exc:
        return missing_client(f"{where} {broker}", str(exc))
    except Exception as exc:  # noqa: BLE001 - each transport has errors of its own
        return (
            f"no connection to the broker {broker}: {str(exc) or type(exc).__name__}; start it, or"
            f" correct host, port, user, password and virtual host (or database) in {where}"
        )
    return None


def missing_client(where: str, what: str) -> str:
    """Return what is missing for a URL, and what to do."""
    return f"{where}: {what}; Redis needs its client: pip install celery-fair[redis]"
