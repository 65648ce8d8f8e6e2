"""What the documentation shows of systemd, Docker, Kubernetes and Prometheus.

The commands in it must work as those that a reader types; of the rest, what would be read otherwise
than it is meant.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.documentation.commands import CommandError, Shell

__all__ = ["check_dockerfile", "check_unit", "check_yaml"]

_INSTRUCTIONS = {"CMD", "COPY", "FROM", "RUN", "STOPSIGNAL", "USER", "WORKDIR"}
_OF_THE_IMAGE = {"useradd"}
"""Commands of `RUN` that are the image's system's."""


def check_unit(name: str, text: str, service: Mapping[str, str], shell: Shell) -> None:
    """A systemd unit: its command, and what systemd itself says, where that is."""
    path = shell.folder / name
    path.write_text(text)
    words = shlex.split(service["ExecStart"])
    shell.verify(shlex.join(words))
    tool = shutil.which("systemd-analyze")
    if tool is None:
        return
    path.write_text(text.replace(words[0], str(Path(sys.executable).with_name("celery"))))
    instance = path.with_name(name.replace("@.", "@1."))
    instance.symlink_to(path)
    done = subprocess.run(
        [tool, "verify", "--recursive-errors=no", "--man=no", instance],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if name.partition("@")[0] in line]
    if done.returncode or said:
        raise CommandError(f"systemd-analyze: {done.stderr}")


def check_dockerfile(text: str, shell: Shell) -> None:
    for line in text.splitlines():
        instruction, _, rest = line.partition(" ")
        if instruction not in _INSTRUCTIONS:
            raise CommandError(f"no instruction of a Dockerfile that is known here: {line!r}")
        if instruction == "RUN" and shlex.split(rest)[0] not in _OF_THE_IMAGE:
            for command in rest.split(" && "):
                shell.verify(command)
        for name in rest.split()[:-1] if instruction == "COPY" else ():
            if not (shell.folder / name).is_file():
                raise CommandError(f"there is nothing to copy: {line!r}")
        if instruction == "CMD":
            shell.verify(shlex.join(json.loads(rest)))


def check_yaml(text: str, shell: Shell) -> None:
    document = yaml.safe_load(text)
    if "groups" in document:  # of Prometheus: tests/test_docs.py has it read that
        return
    kind = document.get("kind")
    if kind == "CronJob":
        _check_pod(document["spec"]["jobTemplate"]["spec"]["template"]["spec"], shell)
    elif kind in {"DaemonSet", "Deployment"}:
        template = document["spec"]["template"]
        if document["spec"]["selector"]["matchLabels"] != template["metadata"]["labels"]:
            raise CommandError("the selector does not select the template's pods")
        _check_pod(template["spec"], shell)
    else:
        raise CommandError("neither rules for Prometheus nor pods for Kubernetes")


def _check_pod(pod: Mapping[str, Any], shell: Shell) -> None:
    volumes = {volume["name"] for volume in pod.get("volumes", ())}
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        mounted = {mount["name"] for mount in container.get("volumeMounts", ())}
        if not mounted <= volumes:
            raise CommandError(f"there is no volume {sorted(mounted - volumes)}")
        for command in _commands(container):
            if "$(" in " ".join(command):  # which are not replaced in a probe, if from a field
                raise CommandError(f"variables are a shell's here: {command}")
            shell.verify(command[2] if command[:2] == ["sh", "-c"] else shlex.join(command))


def _commands(container: Mapping[str, Any]) -> Iterator[list[str]]:
    yield [*container.get("command", ()), *container.get("args", ())]
    for name, probe in container.items():
        if name.endswith("Probe"):
            if probe["timeoutSeconds"] <= 5:
                raise CommandError(f"{name}: a Python that starts may take as long")
            yield probe["exec"]["command"]
