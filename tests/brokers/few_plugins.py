"""An installed RabbitMQ with no more plugins than a node of the tests enables.

A node looks for each of a thousand modules in each of the seventy folders of plugins that are
installed, whether they are enabled or not: fifty thousand files that are not there, and more than
half of what it costs to start.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

__all__ = ["with_few_plugins"]

_ALWAYS = ("rabbit", "rabbitmq_prelaunch")
_APPLICATIONS = re.compile(r"\{\s*applications\s*,\s*\[(.*?)\]", re.DOTALL)


def with_few_plugins(script: str, plugin: str, folder: Path) -> str:
    """Return a `rabbitmq-server` like this one, in the folder, with this plugin alone.

    It is `script` itself where plugins are not kept as a release of RabbitMQ does.
    """
    scripts = Path(script).resolve().parent
    plugins = scripts.parent / "plugins"
    installed = {path.name.rpartition("-")[0]: path for path in plugins.glob("*-*/")}
    if not {*_ALWAYS, plugin} <= installed.keys():
        return script
    (folder / "plugins").mkdir(parents=True)
    for name in _needed(installed, [*_ALWAYS, plugin]):
        (folder / "plugins" / installed[name].name).symlink_to(installed[name])
    shutil.copytree(scripts, folder / "sbin")
    return str(folder / "sbin" / Path(script).resolve().name)


def _needed(installed: dict[str, Path], names: list[str]) -> set[str]:
    """These, and all that they need of what is installed beside them."""
    needed: set[str] = set()
    while names:
        name = names.pop()
        if name in installed and name not in needed:
            needed.add(name)
            said = _APPLICATIONS.search((installed[name] / "ebin" / f"{name}.app").read_text())
            names += re.findall(r"\w+", said[1]) if said else []
    return needed
