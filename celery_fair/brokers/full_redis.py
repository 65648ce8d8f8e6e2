"""A Redis that is full can be worked off: by whoever takes messages from it, which frees memory.

At its ``maxmemory``, with nothing that it may evict, Redis refuses each command that may need
memory, and all transactions. Kombu sends such from a worker's start on: for the names of the queue
by which it is controlled, for locks, for what is unacknowledged. So no worker would start on a
server that a flood has filled. But a script may go on writing once it has written: what a worker's
channels are refused is sent again in one. What publishes is not, so that the flood ends, but for
retries: they take the place of what has been acknowledged, and would be lost.
"""

import json
import logging
from time import monotonic
from typing import Any

from celery_fair.brokers.redis import hurrying, in_a_script, is_full, writing_on

logger = logging.getLogger(__name__)

_PUBLISHES = "LPUSH"

# Options of commands that are the client's own: what reads an answer does not know them.
_CLIENTS = ("keys", "NEVER_DECODE")

_SAY_AGAIN = 60.0
"""Seconds between two lines in the log."""

_scripts: dict[str, str] = {}
"""Those that kombu has registered, by their hashes."""


def let_work(channel: Any, client: Any) -> Any:
    """Return the client of a kombu channel; a full server does for it what it refuses at first.

    And a silent one is asked in a hurry from then on.
    """
    full = _Full(channel, client)
    client.execute_command = full.execute
    client.register_script = full.register
    client.pipeline = full.pipeline
    return client


class _Full:
    """What a client does in place of its own.

    Arguments:
        channel: whose client it is.
        client: the client.
    """

    _said_at = float("-inf")  # by any of them

    def __init__(self, channel: Any, client: Any) -> None:
        self._channel = channel
        self._client = client
        self._held = f"{channel.global_keyprefix}{channel.unacked_key}"
        self._execute = client.execute_command
        self._register = client.register_script
        self._pipeline = client.pipeline

    def register(self, source: str) -> Any:
        script = self._register(source)
        _scripts[script.sha] = source
        return script

    def execute(self, *command: Any, **options: Any) -> Any:
        from redis.exceptions import OutOfMemoryError

        try:
            with hurrying(self._channel):
                return self._execute(*command, **options)
        except OutOfMemoryError:
            if command[0] == _PUBLISHES and not _retries(command[-1]):
                raise
        if hasattr(self._client, "_prefix_args"):
            command = tuple(self._client._prefix_args(command))
        return self._again([(command, options)])[0]

    def pipeline(self, *args: Any, **options: Any) -> Any:
        pipe = self._pipeline(*args, **options)
        execute = pipe.execute

        def execute_all(raise_on_error: bool = True) -> Any:
            from redis.exceptions import ResponseError

            commands, watching = pipe.command_stack, pipe.watching
            try:
                return execute(raise_on_error)
            except ResponseError as exc:
                publishes = any(command[0] == _PUBLISHES for command, _ in commands)
                if not (is_full(exc) and pipe.transaction) or (publishes and not watching):
                    raise
            # Who watches restores: what it takes out of the unacknowledged, it puts back.
            return self._again(commands, depend=watching)

        pipe.execute = execute_all
        return pipe

    def _again(
        self, commands: list[tuple[tuple[Any, ...], dict[str, Any]]], depend: bool = False
    ) -> list[Any]:
        """Send commands, with whole keys and with their options; return the client's answers."""
        self._say()
        if any(command[0] == "EVALSHA" for command, _ in commands):  # no script runs another
            return [self._run(*command) for command, _ in commands]
        words = [command for command, _ in commands]
        answers = self._send(*in_a_script(self._held, words, depend))
        callbacks = self._client.response_callbacks
        return [
            callbacks[command[0]](answer, **_meant(options)) if command[0] in callbacks else answer
            for (command, options), answer in zip(commands, answers, strict=not depend)
        ]

    def _run(self, name: str, *words: Any) -> Any:
        if name != "EVALSHA":
            return self._again([((name, *words), {})])[0]
        sha, *rest = words
        return self._send("EVAL", writing_on(self._held, _scripts[sha]), *rest)

    def _send(self, *command: Any) -> Any:
        from redis import Redis

        send: Any = Redis.execute_command  # without the prefix that kombu's clients add
        return send(self._client, *command)

    def _say(self) -> None:
        now = monotonic()
        if now - _Full._said_at > _SAY_AGAIN:
            _Full._said_at = now
            logger.warning(
                "Redis has no memory left, and refuses who publishes; this worker goes on, which"
                " frees some. What else is kept there, such as results, is refused, too."
            )


def _retries(payload: str | bytes) -> bool:
    """Whether a message as kombu stores it is one that comes again."""
    try:
        return bool(json.loads(payload)["headers"]["retries"])
    except (ValueError, LookupError, TypeError):
        return False


def _meant(options: dict[str, Any]) -> dict[str, Any]:
    """A command's options without those that are the client's own."""
    return {name: value for name, value in options.items() if name not in _CLIENTS}
