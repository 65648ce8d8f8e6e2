"""Names of processes, which tell by which start of which kernel they ran.

What a process has written since its last seal may be lost with its host. A clock tells that only of
the host that it belongs to; a volume may come back on another one.
"""

import secrets
from functools import cache
from hashlib import sha256
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Linux's: random, another one for each start of the kernel; the same in all its containers."""

_KERNEL, _RANDOM = 4, 8  # characters


def new_name() -> str:
    """Return what no other process is called: its kernel's start, and random characters."""
    return _kernel(_BOOT_ID) + secrets.token_hex(_RANDOM // 2)


def ran_elsewhere(name: str) -> bool:
    """Whether a process of this name ran before this start of this kernel, or on another one.

    False where that is not known, as the system has no such id.
    """
    return not name.startswith(_kernel(_BOOT_ID))


@cache
def _kernel(boot_id: Path) -> str:
    try:
        found = boot_id.read_text().strip()
    except OSError:  # not Linux, or not shown
        found = ""
    return sha256(found.encode()).hexdigest()[:_KERNEL]
