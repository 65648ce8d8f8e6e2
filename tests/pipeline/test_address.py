"""What is on this machine, and what is elsewhere."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.storage import store_at
from celery_fair.pipeline.storage.address import is_remote, local_path, refuse_secrets
from celery_fair.pipeline.storage.java_files import JavaFiles


@pytest.mark.parametrize(
    ("address", "path"),
    [
        *(("/a/b", "/a/b"), ("a/b", "a/b"), ("./s3:/a", "s3:/a"), ("a:b", "a:b")),
        *(("file:/a", "/a"), ("file:///a b%20", "/a b%20"), ("FILE://localhost/a", "/a")),
    ],
)
def test_what_is_here(address: str, path: str) -> None:
    assert not is_remote(address)
    assert local_path(address) == Path(path)


@pytest.mark.parametrize("address", ["s3a://b/a", "hdfs:/a", "viewfs:///a", "file://host/a"])
def test_what_is_elsewhere(address: str) -> None:
    assert is_remote(address)


@pytest.mark.parametrize(
    "address",
    [
        "s3a://key:secret@bucket/logs",
        "s3a://KEY:wJalr/secret+K7#/x?@bucket/logs",
        "s3a://KEY:/12secret@bucket",
        "s3a://KEY:12/secret@bucket/logs",
        "https://host/logs?X-Amz-Signature=secret",
        "abfss://box@account.host/logs?sv=1&SIG=secret",
    ],
)
def test_a_password_in_an_address_is_not_told(address: str) -> None:
    with pytest.raises(PipelineError, match=r"address of \w+ has a password or a sig") as refused:
        store_at(address)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        *("hdfs://host:8020/logs/celery@a", "abfss://box@account/logs", "s3a://bucket/celery@a"),
        *("file:/data:x/user@h/t.csv", "/data/x?token=1"),
    ],
)
def test_what_is_no_password(address: str) -> None:
    refuse_secrets(address)


@pytest.mark.parametrize("fails", [True, False])
def test_what_is_not_written_whole_is_not_closed(fails: bool) -> None:
    """To close it is to publish it, in a store of objects."""
    done: list[str] = []

    class Opened:
        def write(self, content: bytes) -> None:
            if fails:
                raise OSError("no room for its parts")

        def abort(self) -> None:
            done.append("abort")

        def close(self) -> None:
            done.append("close")

    with pytest.raises(OSError, match="no room") if fails else nullcontext():
        JavaFiles._fill(Opened(), b"all")
    assert done == ["abort" if fails else "close"]
