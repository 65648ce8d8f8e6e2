"""Every code block of the documentation is run or checked, and a wrong one is found."""

import ast
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from celery_fair.settings import QueueOptions, Settings
from celery_fair.settings.table import table
from tests.documentation.commands import ROOT
from tests.documentation.page import blocks, problems
from tests.documentation.promtool import promtool

pytestmark = [pytest.mark.newest, pytest.mark.timeout(300)]  # a page may have many commands

PAGES = sorted(
    page
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "example_project/README.md")
    for page in ROOT.glob(pattern)
)


SHOP = """\
from celery import Celery
from celery_fair import install

app = Celery("shop", broker="amqp://")
app.conf.fair_queues = {"interactive": {"quantum": 10}, "bulk": {"quantum": 1}}
install(app)
"""


def folder_for(page: Path, scratch: Path) -> Path:
    """Return a folder to run a page in: a copy of the example project for its README.

    Others have a shop in it, for the commands of pages that do not show one of their own.
    """
    if page.parent.name != "example_project":
        (scratch / "shop.py").write_text(SHOP)
        return scratch
    return shutil.copytree(page.parent, scratch / page.parent.name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_of_page(page: Path, tmp_path: Path) -> None:
    assert problems(page, folder_for(page, tmp_path)) == []


def test_there_are_pages_and_blocks() -> None:
    assert {"README.md", "quickstart.md", "settings.md"} <= {page.name for page in PAGES}
    languages = {block.language for page in PAGES for block in blocks(page.read_text())}
    assert {"python", "console"} <= languages


def test_made_tables_are_the_present_ones() -> None:
    script = ROOT / "scripts" / "made_tables.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True)


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [(Settings, "## `fair_"), (QueueOptions, "### `")],
)
def test_the_settings_page_has_every_setting_with_its_default(kind: Any, prefix: str) -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    defaults = {each.name: each.default for each in fields(kind)}
    for name, entry in table(kind).items():
        said = re.search(rf"^{prefix}{name}`\n\nDefault: (.*)", page, re.MULTILINE)
        assert said, f"{name} has no section, or that does not begin with its default"
        literal = re.match(r"`(.+?)`", said[1])
        if literal and literal[1] != "{}":
            value = ast.literal_eval(literal[1])
            assert entry.check(name, value) == defaults[entry.field], said[0]
        elif said[1].startswith("none"):
            assert defaults[entry.field] is None, said[0]


WRONG = {
    "python that raises": ("```python\n1 / 0\n```", "ZeroDivisionError"),
    "python that does not parse": ("```python\n1 +\n```", "SyntaxError"),
    "an unknown language": ("```perl\na: 1\n```", "no check for blocks of language 'perl'"),
    "no language": ("```\na: 1\n```", "no check for blocks of language ''"),
    "indented code": ("text\n\n    1 / 0\n", "no check for blocks of language ''"),
    "inside a note": ("````{note}\n```perl\na\n```\n````", "wrong.md:3: no check"),
    "toml": ("```toml\na = \n```", "Invalid value"),
    "ini": ("```ini\nnothing\n```", "no section headers"),
    "a console without a command": ("```console\nmake test\n```", "without a command"),
    "an unknown command": ("```console\n$ frobnicate now\n```", "no way to verify"),
    "a target that is not": ("```console\n$ make tea\n```", "no target 'tea'"),
    "an option that is not": ("```console\n$ celery worker --tea\n```", "No such option"),
    "an app that is not": ("```console\n$ celery -A tea worker\n```", "tea"),
    "an extra that is not": ("```console\n$ pip install celery-fair[tea]\n```", "no extra tea"),
    "a module that is not": ("```console\n$ python -m tea\n```", "no module 'tea'"),
    "a script that is not": ("```console\n$ python tea.py\n```", "no file 'tea.py'"),
    "a submitted file that is not": ("```console\n$ spark-submit tea.py\n```", "no file 'tea.py'"),
    "nothing submitted": ("```console\n$ spark-submit --tea\n```", "wants a file"),
    "a folder that is not": ("```console\n$ cd tea\n```", "no such folder"),
    "a service that is not": ("```console\n$ service tea start\n```", "do not install 'tea'"),
    "a plugin that is not": ("```console\n$ rabbitmq-plugins enable tea\n```", "enable 'tea'"),
    "what is no yaml": ("```yaml\na: [\n```", "while parsing"),
    "other yaml": ("```yaml\na: 1\n```", "neither rules"),
    "a Dockerfile that runs what is not": (
        '```dockerfile\nFROM a\nCMD ["celery", "worker", "--tea"]\n```',
        "No such option",
    ),
    "a unit that starts what is not": (
        "```ini\n# /etc/tea@.service\n[Service]\nExecStart=/bin/celery tea\n```",
        "No such command",
    ),
    "a right that is not": ("```console\n$ rabbitmqctl tea\n```", "not known of rabbitmqctl"),
    "a test that is none": (
        "```python\n# test_tea.py\na = 1\n```\n```console\n$ pytest test_tea.py\n```",
        "no tests ran",
    ),
    "another package": ("```console\n$ apt-get install tea\n```", "do not install 'tea'"),
}


@pytest.mark.parametrize(("text", "found"), WRONG.values(), ids=WRONG)
def test_wrong_block_is_found(text: str, found: str, tmp_path: Path) -> None:
    page = tmp_path / "wrong.md"
    page.write_text(f"{text}\n")
    (problem,) = problems(page, tmp_path)
    assert found in problem


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_unit_with_a_setting_that_is_not_is_found(tmp_path: Path) -> None:
    unit = "# /etc/tea@.service\n[Service]\nExecStart=/bin/celery worker\nTea=1\n"
    page = tmp_path / "wrong.md"
    page.write_text(f"```ini\n{unit}```\n")
    (problem,) = problems(page, tmp_path)
    assert "Unknown key" in problem


def test_alert_rules_alert(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "metrics.md"
    (rules,) = (block.text for block in blocks(page.read_text()) if block.language == "yaml")
    (tmp_path / "rules.yml").write_text(rules)
    tests = Path(shutil.copy(ROOT / "tests" / "documentation" / "rules_test.yml", tmp_path))
    promtool("check", "rules", tmp_path / "rules.yml")
    promtool("test", "rules", tests)


def test_traceback_names_the_line_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "wrong.md"
    page.write_text("Words.\n\n```python\na = 1\n```\n\nWords.\n\n```python\na = 2\na / 0\n```\n")
    (problem,) = problems(page, tmp_path)
    assert '"wrong.md", line 11' in problem


def test_commands_find_the_files_that_the_page_names(tmp_path: Path) -> None:
    page = tmp_path / "right.md"
    page.write_text(
        "```python\n# shop.py\nfrom celery import Celery\n\napp = Celery('shop')\n```\n"
        "```console\n$ celery -A shop worker \\\n    --pool solo\n```\n"
    )
    assert problems(page, tmp_path) == []
