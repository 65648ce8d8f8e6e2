"""Publishing to Redis: messages as kombu stores them, pushed in pipelines."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator

import redis

from tests.publishing.message import ID, Job, Template, blocks

BLOCK = 1000
"""Messages in one pipeline."""

BODY, QUEUE, TAG = "@body@", "@queue@", "@tag@"


def publish_redis(url: str, jobs: Iterator[Job], template: Template) -> None:
    stored = _storing(template)
    with redis.Redis.from_url(url) as client:
        for block in blocks(jobs, BLOCK):
            with client.pipeline(transaction=False) as pipeline:
                for job in block:
                    pipeline.lpush(job.queue, stored(job))
                pipeline.execute()


def _storing(template: Template) -> Callable[[Job], str]:
    """Returns a function that encodes one message as kombu's Redis transport does."""
    text = json.dumps(
        {
            "body": BODY,
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": template.headers,
            "properties": {
                "delivery_info": {"exchange": "", "routing_key": QUEUE},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": TAG,
            }
            | template.properties,
        }
    )

    def stored(job: Job) -> str:
        return (
            text.replace(ID, job.id)
            .replace(BODY, base64.b64encode(job.body).decode())
            .replace(QUEUE, job.queue)
            .replace(TAG, job.id)
        )

    return stored
