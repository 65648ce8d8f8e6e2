"""Commands that the documentation shows: each must be one that would work."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from tests.brokers.rabbitmq import PLUGINS
from tests.preloaded import run_celery

__all__ = ["ROOT", "CommandError", "Shell"]

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 120


class CommandError(Exception):
    """The documentation shows a command that would not work, or that nothing here can verify."""


class Shell:
    """Verifies commands one after the other; `cd` holds for those that follow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._verifiers: dict[str, Callable[[list[str]], None]] = {
            "apt-get": self._apt_get,
            "cd": self._cd,
            "celery": self._celery,
            "docker": self._docker,
            "find": self._find,
            "make": self._make,
            "pip": self._pip,
            "pytest": self._pytest,
            "python": self._python,
            "python3": self._python,
            "rabbitmq-plugins": self._rabbitmq_plugins,
            "rabbitmqctl": self._rabbitmqctl,
            "rclone": self._rclone,
            "redis-cli": self._redis_cli,
            "service": self._service,
            "sh": self._sh,
            "spark-submit": self._spark_submit,
            "systemctl": self._systemctl,
        }

    def verify(self, command: str) -> None:
        """Raise `CommandError` unless the command, or each of several, would work."""
        first, both, rest = command.partition(" && ")
        if both:
            self.verify(first)
            self.verify(rest)
            return
        words = shlex.split(command, comments=True)
        while words and (words[0] == "sudo" or re.match(r"[A-Z_]+=", words[0])):
            words.pop(0)
        name = Path(words[0]).name if words else ""
        if name not in self._verifiers:
            raise CommandError(f"no way to verify the command {command!r}")
        try:
            self._verifiers[name](words[1:])
        except CommandError as exc:
            raise CommandError(f"{command!r}: {exc}") from None

    def _make(self, words: list[str]) -> None:
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        for word in words:
            if "=" not in word and word not in targets:
                raise CommandError(f"the Makefile has no target {word!r}")

    def _celery(self, words: list[str]) -> None:
        self._went_well(run_celery([*words, "--help"], self.folder, self._environment, TIMEOUT))

    def _python(self, words: list[str]) -> None:
        if words[:1] != ["-m"]:
            self._script(words[0])
        elif words[1] == "celery_fair":
            self._help(*words)
        elif find_spec(words[1]) is None:
            raise CommandError(f"there is no module {words[1]!r}")

    def _spark_submit(self, words: list[str]) -> None:
        at = next((n for n, word in enumerate(words) if word.endswith(".py")), None)
        if at is None:
            raise CommandError("spark-submit wants a file")
        found = [path for path in (ROOT / "celery_fair").rglob("*.py") if path.match(words[at])]
        if len(found) != 1:
            raise CommandError(f"there is no file {words[at]!r} in the package, or more than one")
        self._help(str(found[0]), *words[at + 1 :])

    def _script(self, name: str) -> None:
        path = self.folder / name
        if not path.is_file():
            raise CommandError(f"there is no file {name!r}")
        compile(path.read_text(), name, "exec")

    def _help(self, *words: str) -> None:
        """Run with ``--help``: the options are parsed and the app is loaded, nothing is done."""
        self._run(*words, "--help")

    def _run(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        self._went_well(done)

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "COLUMNS": "200"}

    @staticmethod
    def _went_well(done: subprocess.CompletedProcess[str]) -> None:
        if done.returncode:
            raise CommandError(done.stderr.strip() or done.stdout.strip())

    def _pip(self, words: list[str]) -> None:
        if words[:1] != ["install"]:
            raise CommandError("only pip install can be verified")
        for word in words[1:]:
            if not word.startswith("-"):
                self._requirement(word)

    def _requirement(self, word: str) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        try:
            requirement = Requirement(re.sub(r"^\.(?=$|\[)", project["name"], word))
        except InvalidRequirement as exc:
            raise CommandError(str(exc)) from None
        if requirement.name not in {project["name"], "celery"}:
            raise CommandError(f"{requirement.name} is not this project")
        unknown = requirement.extras - set(project["optional-dependencies"])
        if requirement.name == project["name"] and unknown:
            raise CommandError(f"there is no extra {', '.join(sorted(unknown))}")

    def _apt_get(self, words: list[str]) -> None:
        if words == ["update"]:
            return
        known = (ROOT / "scripts" / "system-packages.sh").read_text()
        if words[:1] != ["install"]:
            raise CommandError("only apt-get install can be verified")
        for word in words[1:]:
            if not word.startswith("-") and word not in known:
                raise CommandError(f"the test commands do not install {word!r}")

    def _rabbitmq_plugins(self, words: list[str]) -> None:
        action, name = words
        if action != "enable" or f"[{name}]" not in PLUGINS:
            raise CommandError(f"the tests' RabbitMQ does not enable {name!r}")

    def _service(self, words: list[str]) -> None:
        name, action = words
        self._apt_get(["install", name])
        if action not in {"start", "stop"}:
            raise CommandError(f"a service is started or stopped, not {action!r}")

    def _pytest(self, words: list[str]) -> None:
        """Run the page's own tests; those of the project need only be there."""
        files = [word.split("::")[0] for word in words if not word.startswith("-")]
        own = [file for file in files if (self.folder / file).is_file()]
        for file in set(files) - set(own):
            if not (ROOT / file).exists():
                raise CommandError(f"there is no {file!r}")
        if own:
            plugins = ["-p", "no:celery", "-p", "no:cacheprovider"]  # that one is pytest-celery's
            self._run("-m", "pytest", *plugins, *words)

    def _docker(self, words: list[str]) -> None:
        known = {"build": {"-t"}, "run": {"--name", "--stop-timeout"}, "stop": set()}
        action, *rest = words
        options = {word for word in rest if word.startswith("-")}
        if action not in known or not options <= known[action]:
            raise CommandError(f"not known of docker: {action} {' '.join(sorted(options))}")

    def _systemctl(self, words: list[str]) -> None:
        action, *units = [word for word in words if word != "--now"]
        if action not in {"enable", "start", "stop"}:
            raise CommandError(f"not known of systemctl: {action}")
        for unit in units:
            if not list(self.folder.glob(unit.partition("@")[0] + "@.service")):
                raise CommandError(f"the page has no unit for {unit!r}")

    def _rabbitmqctl(self, words: list[str]) -> None:
        """Their number; what the permissions are good for, `tests/test_permissions.py` shows."""
        wanted = {"add_vhost": 1, "add_user": 2, "set_permissions": 6}
        action, *rest = words
        if wanted.get(action) != len(rest):
            raise CommandError(f"not known of rabbitmqctl: {action} with {len(rest)} arguments")

    def _redis_cli(self, words: list[str]) -> None:
        if words[:1] != ["ACL"]:  # as above
            raise CommandError("only ACL … can be verified")

    def _rclone(self, words: list[str]) -> None:
        """Their options; what they do, `tests/pipeline/test_copied_logs.py` shows."""
        action, *rest = words
        options = {word for word in rest if word.startswith("--")}
        if action != "copy" or not options <= {"--filter", "--max-age", "--size-only"}:
            raise CommandError(f"not known of rclone: {action} {' '.join(sorted(options))}")

    def _find(self, words: list[str]) -> None:
        """As for rclone."""
        if words[1:] != ["-type", "f", "-mtime", "+31", "-delete"]:
            raise CommandError(f"not known of find: {' '.join(words)}")

    def _sh(self, words: list[str]) -> None:
        """A script that the page shows."""
        if not (self.folder / words[0]).is_file():
            raise CommandError(f"there is no file {words[0]!r}")

    def _cd(self, words: list[str]) -> None:
        for folder in (self.folder / words[0], ROOT / words[0]):
            if folder.is_dir():
                self.folder = folder
                return
        raise CommandError("there is no such folder")
