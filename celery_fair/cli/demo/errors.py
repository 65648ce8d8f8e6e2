"""What can go wrong with a demo, other than its verdict."""

import errno
import os
import sys

import click

__all__ = ["DemoError", "printed"]


class DemoError(click.ClickException):
    """The demo came to no verdict. The message says what was attempted and what to do."""

    exit_code = 2


def printed(text: str, err: bool = False) -> None:
    """Print some text, or explain why that cannot be done: the disk may be full."""
    try:
        click.echo(text, err=err)
    except OSError as exc:
        if exc.errno == errno.EPIPE:
            raise  # click ends the command quietly
        stream = sys.stderr if err else sys.stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # for what is in its buffer
        raise DemoError(
            f"cannot write to standard {'error' if err else 'output'}: {exc.strerror}"
        ) from exc
