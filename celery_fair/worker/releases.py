"""Which releases of Celery, kombu, py-amqp and billiard the worker was tried with.

It leans on what is inside them, and nobody has promised that this stays. With a newer one a worker
warns at its start, and leaves the fast path alone, which leans on most.
"""

from functools import cache
from importlib.metadata import version

NEWEST = {"celery": "5.7", "kombu": "5.7", "amqp": "5.4", "billiard": "4.3"}


@cache
def untried() -> tuple[str, ...]:
    """Return those that are newer, each with its version."""
    found = {name: version(name) for name in NEWEST}
    newer = (name for name in found if _release(found[name]) > _release(NEWEST[name]))
    return tuple(f"{name} {found[name]}" for name in newer)


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])
