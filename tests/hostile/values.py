"""Values of a type, a size or a meaning that nobody expects."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

TEXTS = (
    "",
    " ",
    "x",
    "0",
    "-1",
    "true",
    "null",
    "never",
    "tomorrow",
    "\0",
    "\n",
    "é" * 50,
    "\U0001f600",
    "\ud800",
    "%s%n",
    "{0}{x.y}",
    "../../etc",
    "1e999",
    "NaN",
    "2030-13-01T00:00:00",
    "2030-01-01T00:00:00+99:99",
    "99999-01-01T00:00:00",
    "0000-00-00",
    "9" * 400,
    "n" * 30_000,
    "before",
    "celery.chord",
    "amq.rabbitmq.reply-to",
    "a;DROP TABLE x",
    "\x06\x16",
)
NUMBERS = (
    0,
    -1,
    1,
    255,
    256,
    2**31,
    -(2**31),
    2**53 + 1,
    2**62,
    -(2**63),
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
)
OTHERS = (None, True, False, b"", b"\xff\xfe", b"x" * 300)
FOR_AMQP = (Decimal("1.5"), Decimal(-1), datetime(1970, 1, 1, tzinfo=UTC))
"""What a table of AMQP's has besides."""


def value(draw: Random, depth: int = 2) -> Any:
    """Any value that a header may have, on each broker."""
    kind = draw.random()
    if depth and kind < 0.15:
        return [value(draw, depth - 1) for _ in range(draw.randrange(4))]
    if depth and kind < 0.3:
        return {text(draw): value(draw, depth - 1) for _ in range(draw.randrange(4))}
    if kind < 0.33:
        return nested(draw.choice((10, 90, 200)))
    if kind < 0.6:
        return text(draw)
    if kind < 0.8:
        return draw.choice(NUMBERS)
    return draw.choice(OTHERS + FOR_AMQP)


def text(draw: Random) -> str:
    if draw.random() < 0.7:
        return draw.choice(TEXTS)
    return "".join(chr(draw.randrange(1, 0x2FF)) for _ in range(draw.randrange(20)))


def nested(deep: int) -> Any:
    """An object in an object, and so on."""
    return json.loads('{"a":' * deep + "1" + "}" * deep)


def noise(draw: Random, most: int = 200) -> bytes:
    return draw.randbytes(draw.randrange(most))
