"""Free TCP ports on loopback."""

from __future__ import annotations

import random
import socket

# Below the range from which the kernel takes source ports: a broker that is
# down must not find its port taken, on its return, by somebody's outgoing
# connection, nor a client in reconnect connect to itself.
RANGE = range(20_000, 32_000)

_ours: list[socket.socket] = []


def free_port() -> int:
    """A port that no other test process gets while this one lives, whether it is in use or not."""
    while True:
        port = random.choice(RANGE)
        if _is_free(port) and _take(port):
            return port


def _take(port: int) -> bool:
    """Take a name that ends with this process; False if it is taken."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0celery-fair-port-{port}")
    except OSError:
        name.close()
        return False
    _ours.append(name)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def accepts(port: int) -> bool:
    """True when something listens on the port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
