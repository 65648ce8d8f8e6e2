"""Free TCP ports on loopback."""

from __future__ import annotations

import random
import socket

# Below the range from which the kernel takes source ports: a broker that is
# down must not find its port taken, on its return, by somebody's outgoing
# connection, nor a client in reconnect connect to itself.
RANGE = range(20_000, 32_000)


def free_port() -> int:
    while True:
        port = random.choice(RANGE)
        if _is_free(port):
            return port


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
