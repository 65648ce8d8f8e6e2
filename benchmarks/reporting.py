"""The same app under Sentry's SDK, as in its quick start; what it would send goes nowhere.

It begins before anything of the app is imported, as Sentry asks for: Celery's own worker would else
have taken the tracer that Sentry replaces, and be measured without it.
"""

from typing import Any

import sentry_sdk
from sentry_sdk.transport import Transport

__all__ = ["app"]


class Silent(Transport):
    """Takes what there is, and keeps nothing."""

    def capture_envelope(self, envelope: Any) -> None: ...


sentry_sdk.init(dsn="http://key@localhost/1", transport=Silent, traces_sample_rate=1.0)

from benchmarks.counted import app  # noqa: E402
