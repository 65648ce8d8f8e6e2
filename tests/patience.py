"""Clients of stores, ledgers and leashes that a slow server does not make give up."""

from __future__ import annotations

import pytest

from celery_fair import sql_client

SECONDS = 30


def wait_long_for_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Redis, ZooKeeper and databases: a busy machine may take longer than a worker waits."""
    monkeypatch.setattr("celery_fair.redis_client._TIMEOUT", SECONDS)
    for part in ("session", "store"):
        monkeypatch.setattr(f"celery_fair.groups.zookeeper_{part}.TIMEOUT", float(SECONDS))
    monkeypatch.setattr(sql_client, "_TIMEOUT", SECONDS)
    for arguments in sql_client._ARGUMENTS.values():
        for name in arguments:
            if name.endswith("timeout"):
                monkeypatch.setitem(arguments, name, SECONDS)
