"""What can go wrong with a demo, other than its verdict."""

import click

__all__ = ["DemoError"]


class DemoError(click.ClickException):
    """The demo came to no verdict. The message says what was attempted and what to do."""

    exit_code = 2
