"""What is on this machine, and what is elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from celery_fair.pipeline.storage.address import is_remote, local_path


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
