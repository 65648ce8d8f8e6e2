"""Groups in ZooKeeper.

ZooKeeper does not tell the time, but its leader puts a time stamp on what is written. So each read
first writes an empty node, the clock, and takes the time from the answer. Both requests are sent at
once and answered in this order, by a server that has seen the write: one that lags behind cannot
return an old document. The price is two writes a second for each member.

To write the clock only now and then would be cheaper, and wrong. A member would compute the end of
its lease from a time that is out of date, and others would begin while it still believes in it.

The next leader has another clock. They may differ by less than the margin.
"""

import zlib
from urllib.parse import quote, urlsplit

from celery.exceptions import ImproperlyConfigured
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.protocol.paths import normpath

from celery_fair.groups import GroupStore, Snapshot, StoreUnreachableError
from celery_fair.groups.zookeeper_session import TIMEOUT, Session
from celery_fair.settings.values import unread


class ZookeeperStore(GroupStore):
    """A node for each group, ``/celery-fair/group:<name>`` below the URL's path.

    Compressed, because a node holds a megabyte at most, and a group of 10,000 partitions takes one
    and a half. A snapshot's version is the node's plus one. A node that is deleted and made again
    starts from the beginning, so stop the workers before you delete a group.
    """

    def __init__(self, url: str) -> None:
        try:
            address, path = _parted(url)
            self._session = Session(address)
            self._root = f"{path}/celery-fair"
        except ValueError as exc:
            raise ImproperlyConfigured(
                f"fair_group_store must be zookeeper://host:port,host:port/path: {unread(url, exc)}"
            ) from None
        self._clock = f"{self._root}/clock"
        self._created = False

    def create(self) -> dict[str, bool]:
        with self._session.client() as client:
            missing = client.exists_async(self._clock).get(timeout=TIMEOUT) is None
            client.ensure_path_async(self._clock).get(timeout=TIMEOUT)
        self._created = True
        return {self._clock: missing}

    def read(self, group: str) -> Snapshot:
        self._make_sure()
        try:
            with self._session.client() as client:
                clock = client.set_async(self._clock, b"")
                found = client.get_async(self._node(group))
                now = clock.get(timeout=TIMEOUT).mtime / 1000
                try:
                    data, stat = found.get(timeout=TIMEOUT)
                except NoNodeError:
                    return Snapshot(0, None, now)
        except StoreUnreachableError:
            self._created = False  # perhaps the clock is gone
            raise
        try:
            return Snapshot(stat.version + 1, zlib.decompress(data).decode(), now)
        except zlib.error as exc:
            raise ValueError(f"{self._node(group)} in ZooKeeper holds no group: {exc}") from exc

    def write(self, group: str, version: int, text: str) -> bool:
        self._make_sure()
        node, data = self._node(group), zlib.compress(text.encode(), level=1)
        with self._session.client() as client:
            try:
                if version:
                    client.set_async(node, data, version - 1).get(timeout=TIMEOUT)
                else:
                    client.create_async(node, data).get(timeout=TIMEOUT)
            except (BadVersionError, NodeExistsError, NoNodeError):  # somebody was faster
                return False
        return True

    def close(self) -> None:
        self._session.close()

    def _make_sure(self) -> None:
        if not self._created:
            self.create()

    def _node(self, group: str) -> str:
        return f"{self._root}/group:{quote(group, safe='')}"


def _parted(url: str) -> tuple[str, str]:
    _, address, path, options, fragment = urlsplit(url)
    if options or fragment:
        raise ValueError(f"{options or fragment!r}: there are no options")
    return address, normpath(path)
