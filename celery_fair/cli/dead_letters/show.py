"""``fair dead-letters show``."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import click

from celery_fair.cli.dead_letters.access import dead_letters_of
from celery_fair.cli.dead_letters.body import readable
from celery_fair.cli.options import dumped
from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.plan import Copies
from celery_fair.operate.text import escaped

__all__ = ["names_of", "plain", "show_letters"]


@click.command("show")
@click.argument("letter_id", metavar="ID")
@click.option(
    "--bytes",
    "limit",
    metavar="N",
    type=click.IntRange(0),
    default=2000,
    show_default=True,
    help="Show no more of the body; 0 for all.",
)
@click.option("-j", "--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
@click.pass_context
def show_letters(ctx: click.Context, letter_id: str, limit: int, as_json: bool) -> None:
    """Show all of a letter: headers, properties, body.

    A body of text is shown as it is, and one of JSON as the task's arguments. What is pickled or
    otherwise no text is shown in base64, and never loaded. If a worker was killed while it moved
    the message, there may be two letters of it; both are shown.

    \b
    Examples:
      celery -A shop fair dead-letters show 6c1ff3b5-6a5c-4a2a-9e6c-0e5b8c2f7d10
      celery -A shop fair dead-letters show 02c4a1f09b7d33e8 --bytes 0 --json

    Exit status: 0; 1 if there is no such letter or the broker cannot be reached.
    """
    with dead_letters_of(ctx) as queue, closing(queue.browse()) as letters:
        found = [_fields(letter, limit) for letter in letters if letter_id in names_of(letter)]
    if as_json:
        click.echo(dumped(found, indent=2))
    else:
        click.echo("\n\n".join("\n".join(_lines(each)) for each in found), nl=bool(found))
    if not found:
        raise click.ClickException(
            f"there is no dead letter {escaped(letter_id)!r}; dead-letters list shows their ids"
        )


def names_of(letter: Letter | Copies) -> set[str]:
    """Return how it may be called: its digest, or its id as it is, or as it is shown."""
    return {letter.digest, letter.id, escaped(letter.id)}


def _fields(letter: Letter, limit: int) -> dict[str, Any]:
    return {
        "id": letter.id,
        "digest": letter.digest,
        "problem": letter.problem,
        "headers": plain(letter.headers),
        "properties": plain(letter.properties),
        "body": readable(letter, limit),
    }


def _lines(fields: Mapping[str, Any]) -> Iterator[str]:
    yield f"id: {escaped(fields['id'])}"
    yield f"digest: {fields['digest']}"
    if fields["problem"]:
        yield f"problem: {escaped(fields['problem'])}"
    for part in ("headers", "properties"):
        yield f"{part}:"
        for name, value in fields[part].items():
            yield f"  {escaped(name)}: {_as_text(value)}"
    yield from _body_lines(fields["body"])


def _body_lines(body: Mapping[str, Any]) -> Iterator[str]:
    yield f"body: {body['bytes']} bytes{', cut; --bytes 0 shows all' if body['cut'] else ''}"
    if "args" in body:
        yield f"  args: {_as_text(body['args'])}"
        yield f"  kwargs: {_as_text(body['kwargs'])}"
    elif "text" in body:
        yield from (f"  {escaped(line)}" for line in body["text"].split("\n"))
    else:
        yield f"  base64: {body['base64']}"


def _as_text(value: Any) -> str:
    return escaped(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON has it."""
    if depth > 20:
        return "(nested too deeply)"
    if isinstance(value, Mapping):
        return {_name(name): plain(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, depth + 1) for each in value]
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode()}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)


def _name(name: Any) -> str:
    return name if isinstance(name, str) else repr(name)
