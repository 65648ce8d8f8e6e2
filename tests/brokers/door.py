"""Another way to a server than its own port: through TLS, or by asking a sentinel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Door:
    """What a worker connects by, and a proxy stands before.

    Attributes:
        url: with the port, and a slash behind that.
        port: of the url.
        kind: of what goes through it, as a proxy sees that; neither kind of broker if it cannot.
        conf: the app's settings without which the door stays shut.
    """

    url: str
    port: int
    kind: str = "opaque"
    conf: Mapping[str, Any] = field(default_factory=dict)
