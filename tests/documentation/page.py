"""A page's fenced blocks: what is wrong with them.

Python blocks of one page run in order, in one fresh interpreter and namespace, as a reader would
type them. A block whose first line is a comment that names a file (``# shop.py``) is written to
that file as well, so that the commands further down find it.
"""

import configparser
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from markdown_it import MarkdownIt

from tests.documentation.commands import CommandError, Shell
from tests.documentation.deployment import check_dockerfile, check_unit, check_yaml

__all__ = ["Block", "blocks", "problems"]

NESTING = {"{note}", "{tip}", "{warning}", "{admonition}", "{important}"}
CHECKED_BY_SPHINX = {"{toctree}", "{raw}", "{eval-rst}"}
FILE_NAME = re.compile(r"# ([\w/]+\.py)\n")
SCRIPT_NAME = re.compile(r"# ([\w-]+\.sh)\n")
UNIT_NAME = re.compile(r"# [\w/.-]*/([\w@-]+\.service)\n")
TIMEOUT = 120


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line of the page that the text begins on."""

    language: str
    text: str
    line: int


def blocks(markdown: str, first_line: int = 1) -> Iterator[Block]:
    """Yield a text's fenced blocks, those inside notes and warnings too."""
    for token in MarkdownIt().parse(markdown):
        if token.type not in {"fence", "code_block"} or token.map is None:
            continue
        language = (token.info.split() or [""])[0]
        fence = 1 if token.type == "fence" else 0
        line = first_line + token.map[0] + fence
        if language in NESTING:
            yield from blocks(token.content, line)
        elif language not in CHECKED_BY_SPHINX:
            yield Block(language, token.content, line)


def problems(page: Path, folder: Path) -> list[str]:
    """Return what is wrong with a page's blocks; `folder` is where its files and commands live."""
    found = list(blocks(page.read_text()))
    python = [block for block in found if block.language == "python"]
    write_named_files(python, folder)
    wrong = run_python(page, python, folder)
    shell = Shell(folder)
    for block in found:
        if block.language != "python":
            wrong += [f"{page.name}:{block.line}: {what}" for what in check(block, shell)]
    return wrong


def write_named_files(python: list[Block], folder: Path) -> None:
    for block in python:
        if match := FILE_NAME.match(block.text):
            path = folder / match[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)


def run_python(page: Path, python: list[Block], folder: Path) -> list[str]:
    """Run the blocks as one program whose line numbers are those of the page."""
    if not python:
        return []
    program = ""
    for block in python:
        program += "\n" * (block.line - 1 - program.count("\n")) + block.text
    code = f"exec(compile({program!r}, {page.name!r}, 'exec'), {{'__name__': '__main__'}})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return [f"{page.name}: {done.stderr}"] if done.returncode else []


def check(block: Block, shell: Shell) -> list[str]:
    checker = CHECKERS.get(block.language)
    if checker is None:
        return [f"no check for blocks of language {block.language!r}"]
    try:
        checker(block.text, shell)
    except (CommandError, configparser.Error, tomllib.TOMLDecodeError, yaml.YAMLError) as exc:
        return [str(exc)]
    return []


def check_commands(text: str, shell: Shell) -> None:
    commands = [line[2:] for line in text.replace("\\\n", " ").splitlines() if line[:2] == "$ "]
    if not commands:
        raise CommandError("a console block without a command: a line that begins with '$ '")
    for command in commands:
        shell.verify(command)


def check_ini(text: str, shell: Shell) -> None:
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment]
    parsed.read_string(text)
    if match := UNIT_NAME.match(text):
        check_unit(match[1], text, dict(parsed["Service"]), shell)


def check_script(text: str, shell: Shell) -> None:
    """A shell script, which is written to the file that it names."""
    match = SCRIPT_NAME.match(text)
    if match is None:
        raise CommandError("a script whose first line does not name it")
    (shell.folder / match[1]).write_text(text)
    done = subprocess.run(
        ["sh", "-n", shell.folder / match[1]], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CommandError(done.stderr)


CHECKERS: dict[str, Callable[[str, Shell], object]] = {
    "console": check_commands,
    "shell": check_commands,
    "dockerfile": check_dockerfile,
    "ini": check_ini,
    "sh": check_script,
    "toml": lambda text, shell: tomllib.loads(text),
    "text": lambda text, shell: None,
    "yaml": check_yaml,
}
