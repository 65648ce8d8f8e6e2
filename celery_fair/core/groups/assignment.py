"""Which member of a group consumes which partition; and which partition a key belongs to.

The assignor
------------
With P partitions and M members, each member gets ``P // M`` of them or one more: counts differ by
at most one. A member keeps what it already has, as far as its count allows (*sticky*), because a
partition that moves has to be given up, and nobody works on it in the meantime. The members that
have most are the ones that get one more. So the fewest partitions move: a member that has h keeps
``min(h, quota)`` whichever way its partitions are chosen, and the sum of the quotas' parts that are
in use already is largest if the larger quotas go to those that have more.

The result depends on the arguments alone, so everybody who computes it gets the same.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

_LONGEST = 1 << 16
"""Bytes of a key: a longer one is a mistake, such as a whole document."""

_LONGEST_ROUTING_KEY = 255
"""Bytes; AMQP's short string."""


def partition_of(key: int | str | bytes, partitions: int) -> int:
    """Return the number of the partition, from 0, that a key belongs to: a stable hash, modulo.

    It is the same in every process, on every machine and in every version: BLAKE2b with a digest
    length of eight bytes (which is part of what it hashes: the first eight of a longer digest are
    others), as a big-endian number. An integer counts as its decimal digits, a text as UTF-8.

    Raises:
        TypeError: the key is none of the three; a bool is no integer here.
        ValueError: it is empty, or longer than 65,536 bytes.
    """
    return int.from_bytes(blake2b(_bytes_of(key), digest_size=8).digest()) % partitions


def key_text(key: int | str | bytes) -> str:
    """Return what a key is to an exchange that hashes routing keys: the key itself, as text.

    One that AMQP has no room for, above 255 bytes, or that is no UTF-8, which clients cannot read,
    is represented by 16 bytes of BLAKE2b, in hexadecimal digits.

    Raises:
        TypeError, ValueError: as `partition_of`.
    """
    raw = _bytes_of(key)
    if len(raw) <= _LONGEST_ROUTING_KEY:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            pass
    return blake2b(raw, digest_size=16).hexdigest()


def _bytes_of(key: int | str | bytes) -> bytes:
    if isinstance(key, bool) or not isinstance(key, int | str | bytes):
        raise TypeError(
            f"a partition key must be an integer, a text or bytes, not {type(key).__name__}:"
            f" {key!r:.80}"
        )
    raw = key if isinstance(key, bytes) else str(key).encode("utf-8", "surrogatepass")
    if not raw or len(raw) > _LONGEST:
        raise ValueError(
            f"a partition key must have 1 to {_LONGEST} bytes, not {len(raw)}: {key!r:.80}"
        )
    return raw


def assign(
    members: Iterable[str], partitions: Iterable[str], before: Mapping[str, str]
) -> dict[str, str]:
    """Return the member of each partition; of none if there are no members.

    Arguments:
        before: the member that each partition has now; others' and unknown ones are left out.
    """
    names = sorted(set(members))
    wanted = sorted(set(partitions))
    if not names:
        return {}
    has: dict[str, list[str]] = {name: [] for name in names}
    free: list[str] = []
    for partition in wanted:
        has.get(before.get(partition, ""), free).append(partition)
    least, more = divmod(len(wanted), len(names))
    by_count = sorted(names, key=lambda name: -len(has[name]))  # of equals, the first by name
    quotas = {name: least + (place < more) for place, name in enumerate(by_count)}
    for name in names:
        free += has[name][quotas[name] :]
        del has[name][quotas[name] :]
    free.sort(reverse=True)
    for name in names:
        while len(has[name]) < quotas[name]:
            has[name].append(free.pop())
    return {partition: name for name, own in has.items() for partition in own}
