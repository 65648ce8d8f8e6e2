"""Amazon's SQS, as moto's server plays it: a child process that keeps all in memory."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cached_property
from typing import Any
from urllib.request import Request, urlopen

from tests.ports import accepts, free_port
from tests.processes import Process, folder
from tests.waiting import wait_for


class Sqs:
    """One region of one account, which is a test's own place as well."""

    kind = "sqs"

    def __init__(self) -> None:
        self.folder = folder("sqs")
        self.port = free_port()
        self._process: Process | None = None

    def start(self) -> None:
        self._process = Process(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            self.folder / "server.log",
            os.environ,
        )

    def wait_ready(self, timeout: float = 60) -> None:
        assert self._process is not None
        wait_for(lambda: accepts(self.port), timeout, self._process.log)

    def reset(self) -> None:
        """Forget all queues."""
        urlopen(Request(f"http://127.0.0.1:{self.port}/moto-api/reset", method="POST")).close()

    def end(self) -> None:
        if self._process is not None:
            self._process.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"sqs://key:secret@127.0.0.1:{self.port}/"

    def options(self, **more: Any) -> dict[str, Any]:
        """Return the transport's options, by which it waits for no longer than a test likes."""
        return {"region": "us-east-1", "wait_time_seconds": 1, "polling_interval": 0.1} | more

    @cached_property
    def client(self) -> Any:
        import boto3

        return boto3.client(
            "sqs",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
        )

    def depth(self, queue: str) -> tuple[int, int]:
        """Messages that wait, and that somebody holds."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_url(QueueName=queue)["QueueUrl"]
        answer = self.client.get_queue_attributes(QueueUrl=found, AttributeNames=names)
        waiting, held = (int(answer["Attributes"][name]) for name in names)
        return waiting, held
