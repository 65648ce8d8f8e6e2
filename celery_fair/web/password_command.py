"""``fair web-password``."""

import sys

import click

from celery_fair.web.passwords import line_for

__all__ = ["web_password"]


@click.command("web-password")
@click.argument("name")
def web_password(name: str) -> None:
    """Print a line for `fair web --passwords`: NAME, and the hash of a password that is asked for.

    Where standard input is no terminal, its first line is the password.

    \b
    Example:
      celery -A shop fair web-password alice >> passwords

    Exit status: 0; 2 for a name that cannot be.
    """
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise click.UsageError("an empty password would let everybody in")
    try:
        click.echo(line_for(name, password))
    except ValueError as exc:
        raise click.UsageError(str(exc)) from None
