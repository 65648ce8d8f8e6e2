"""Groups in Redis."""

from importlib.resources import files
from typing import Any

from celery_fair.groups import GroupStore, Snapshot, StoreUnreachableError
from celery_fair.redis_client import asked, client_at


class RedisStore(GroupStore):
    """A hash for each group, ``celery-fair:group:<name>``."""

    def __init__(self, url: str) -> None:
        self._client: Any = client_at(url, "fair_group_store")
        self._read, self._write = (
            self._client.register_script(
                files("celery_fair.groups").joinpath(f"{name}.lua").read_text()
            )
            for name in ("read", "write")
        )

    def read(self, group: str) -> Snapshot:
        version, text, now = asked(self._read, StoreUnreachableError, keys=[_name(group)])
        return Snapshot(int(version), None if text is None else text.decode(), float(now))

    def write(self, group: str, version: int, text: str) -> bool:
        arguments = [version, text]
        return bool(asked(self._write, StoreUnreachableError, keys=[_name(group)], args=arguments))

    def close(self) -> None:
        self._client.close()


def _name(group: str) -> str:
    return f"celery-fair:group:{group}"
