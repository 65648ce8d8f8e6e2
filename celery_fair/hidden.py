"""Settings of which ``celery report`` and ``inspect conf`` show no value: it may have a password.

By name, so that an app that publishes is not kept waiting for what reads the settings.
"""

import re
from typing import Any

from celery.app import utils

SECRETS = ("fair_leash_url", "fair_ledger", "fair_key_store", "fair_group_store")


def hide() -> None:
    """Have Celery hide them, too."""
    module: Any = utils
    celerys = module.HIDDEN_SETTINGS
    ours = "|".join(f"{name}$" for name in SECRETS)
    if ours not in celerys.pattern:
        module.HIDDEN_SETTINGS = re.compile(f"{celerys.pattern}|{ours}", celerys.flags)
