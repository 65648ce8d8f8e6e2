"""Kombu's queues as they are in Redis: commands about them, and scripts."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.resources import files
from typing import Any
from uuid import uuid4

MARK = "celery-fair:broker"
"""The key in which a database has a name of its own, below the transport's prefix."""


_HURRIED = ("socket_timeout", "socket_connect_timeout"), 2.0
"""Options of a connection, and seconds, at the most, for which a server that has not answered in
time is waited for next: the connection is lost, and who ends it would else wait long for one answer
after the other. A new one may be answered at once, as where a firewall has forgotten the old."""


def connection_of(pool: Any) -> Any:
    """Take a connection from a pool of the client library's."""
    try:
        return pool.get_connection()
    except TypeError:  # redis-py before 5.3 wants a command's name
        return pool.get_connection("_")


def release_idle(channel: Any) -> None:
    """Close what a kombu channel keeps open of connections and does not use just now.

    When a connection is lost, kombu closes its channels one after the other, and none of the rest
    once that fails for one. What it has not closed lives, with its connections, as long as the
    process. Here its pools stay: kombu needs them to restore, at the process's exit, what is
    unacknowledged.
    """
    for pool in (channel._pool, channel._async_pool):  # None, once it is closed
        if pool is not None:
            pool.disconnect(inuse_connections=False)


@contextmanager
def hurrying(channel: Any) -> Iterator[None]:
    """Ask a server; if it does not answer in time, it is asked in a hurry on that connection."""
    from redis.exceptions import TimeoutError as SilentError

    try:
        yield
    except SilentError:
        names, most = _HURRIED
        transport = getattr(channel, "connection", None)  # a store has none
        for each in transport.channels if transport else ():
            release_idle(each)
            for pool in (each.pool, each.async_pool):  # also who has asked for nothing yet
                given = pool.connection_kwargs
                given.update({name: min(given.get(name) or most, most) for name in names})
                pool.reset()  # else it connects what it has again, as that was made
        raise


class Commands:
    """Sends commands beside a kombu channel, about its keys as they are in Redis, each once.

    The client library would send one again that had no answer in time, where transport options
    say ``retry_on_timeout``. What it takes, or settles, need not be there for the second.

    Not on the channel's own client, whose one connection may be waiting for a ``BRPOP``: it would
    take that answer for its own.

    Arguments:
        channel: of kombu's Redis transport.
    """

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    @cached_property
    def _client(self) -> Any:
        return self._channel._create_client()

    def key(self, name: str) -> str:
        """Return a key as it is in Redis."""
        return f"{self._channel.global_keyprefix}{name}"

    def lists(self, queue: str) -> list[str]:
        """Return the keys of a queue's lists, the most urgent first."""
        channel = self._channel
        return [self.key(channel._q_for_pri(queue, step)) for step in channel.priority_steps]

    def list_of(self, queue: str, payload: Any) -> str:
        """Return the key of the list in which a message of a queue belongs."""
        priority = self._channel._get_message_priority(payload, reverse=False)
        return self.key(self._channel._q_for_pri(queue, priority))

    @property
    def unacked(self) -> list[str]:
        """The keys of what is unacknowledged: by tag, and its index by time."""
        return [self.key(self._channel.unacked_key), self.key(self._channel.unacked_index_key)]

    def __call__(self, *args: Any) -> Any:
        """Send a command, with whole keys: no prefix is added to them."""
        with self._connection() as connection:
            connection.send_command(*args)
            return connection.read_response()

    def packed(self, *args: Any) -> list[bytes]:
        """Return a command as it is sent, to be sent often: packing takes its time."""
        with self._connection() as connection:
            return list(connection.pack_command(*args))

    def send_packed(self, command: list[bytes]) -> Any:
        """Send what `packed` has returned."""
        with self._connection() as connection:
            connection.send_packed_command(command)
            return connection.read_response()

    def all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands in one go, and return their answers.

        Raises:
            redis.ResponseError: the first of those; all commands were carried out or refused.
        """
        return raised(answers_to(self._asking(commands)))

    def at_once(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands as one transaction, on a server that is full, too; return their answers.

        Raises:
            redis.ResponseError: one of them was refused, and none was carried out.
        """
        return answers_to(self.asking_at_once(commands))

    def asking_at_once(self, commands: Sequence[tuple[Any, ...]]) -> "Asking":
        """Do the same in two steps; see `Asking`."""
        from redis.exceptions import ResponseError

        try:
            *_, answers = raised((yield from self._asking([("MULTI",), *commands, ("EXEC",)])))
        except ResponseError as exc:
            if not is_full(exc):
                raise
            answers = self(*in_a_script(commands[0][1], commands))
        return list(answers)

    def refused(self, commands: Sequence[tuple[Any, ...]]) -> list[str]:
        """Return for each command why the user may not send it, or "" if it may.

        None is carried out: Redis looks at rights when it puts a command into a transaction, and
        this one is discarded.
        """
        from redis.exceptions import NoPermissionError

        _, *answers, _ = answers_to(self._asking([("MULTI",), *commands, ("DISCARD",)]))
        return [str(each) if isinstance(each, NoPermissionError) else "" for each in answers]

    def _asking(self, commands: Sequence[tuple[Any, ...]]) -> "Asking":
        """Send commands in one go; return their answers, of those that were refused the error."""
        from redis.exceptions import ResponseError

        answers: list[Any] = []
        with self._connection() as connection:
            connection.send_packed_command(connection.pack_commands(commands))
            try:
                yield
                for _ in commands:
                    try:
                        answers.append(connection.read_response())
                    except ResponseError as exc:
                        answers.append(exc)
            except BaseException:  # nobody wants to hear: they would be taken for other answers
                connection.disconnect()
                raise
        return answers

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        pool = self._client.connection_pool
        with hurrying(self._channel):
            connection = connection_of(pool)
            try:
                yield connection
            finally:
                pool.release(connection)


Asking = Generator[None, None, list[Any]]
"""Has sent commands at the first step, and returns the answers at the second."""


def answers_to(asking: Asking) -> list[Any]:
    """Take what steps are left, and return the answers."""
    try:
        while True:
            next(asking)
    except StopIteration as end:
        answers: list[Any] = end.value
        return answers


def raised(answers: list[Any]) -> list[Any]:
    """Return answers of which none is an error; the first one that is, is raised."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


class Script:
    """A script that the server runs, known to it by its hash.

    Arguments:
        send: how commands are sent.
        source: the script.
    """

    def __init__(self, send: Commands, source: str) -> None:
        self._send = send
        self._source = source

    @cached_property
    def _sha(self) -> str:
        sha = self._send("SCRIPT", "LOAD", self._source)
        return sha.decode() if isinstance(sha, bytes) else sha

    def __call__(self, keys: list[str], args: list[Any]) -> Any:
        """Run it."""
        from redis.exceptions import NoScriptError

        try:
            return self._send("EVALSHA", self._sha, len(keys), *keys, *args)
        except NoScriptError:  # the server was restarted or its scripts flushed
            return self._send("EVAL", self._source, len(keys), *keys, *args)


def pairs_of(answer: Any) -> Iterable[tuple[Any, Any]]:
    """Return what a hash has, of the server's answer: a list by RESP2, a mapping by RESP3."""
    if isinstance(answer, dict):
        return answer.items()
    return zip(answer[::2], answer[1::2], strict=True)


def script_text(package: str, *names: str) -> str:
    """Return scripts that are files of a package, one behind the other."""
    return "\n".join(files(package).joinpath(name).read_text() for name in names)


def is_full(exc: Exception) -> bool:
    """Whether a server has refused a command, or a transaction, since it has no memory left."""
    from redis.exceptions import ExecAbortError, OutOfMemoryError

    aborted = isinstance(exc, ExecAbortError) and "OOM" in str(exc)
    return aborted or isinstance(exc, OutOfMemoryError)


def in_a_script(
    key: str, commands: Sequence[tuple[Any, ...]], depend: bool = False
) -> tuple[Any, ...]:
    """Return a script's call that does what these commands do, on a server that is full, too.

    Arguments:
        key: one that this user may use, see `writing_on`.
        commands: with whole keys.
        depend: whether all are left out if the first one finds nothing.
    """
    script = writing_on(key, script_text("celery_fair.brokers", "all.lua"))
    counted = [word for command in commands for word in (len(command), *command)]
    return ("EVAL", script, 0, int(depend), *counted)


def writing_on(key: str, script: str) -> str:
    """Return a script to which a full server refuses nothing.

    Redis refuses what may need memory to a script that has not written yet. Taking what is not
    there out of a hash is to have written.

    Arguments:
        key: what the hash's name begins with, so that users may name it who may use that key.
    """
    named = "".join(f"\\{byte:03}" for byte in f"{key}:none".encode())
    return f"redis.call('HDEL', '{named}', '')\n{script}"


def marked(send: Commands) -> str:
    """Return the name of the database, given to it if it has none; "" where that is refused.

    Redis has none itself that all clients see and that outlives a restart and a failover.
    """
    from redis.exceptions import ResponseError

    key = send.key(MARK)
    try:  # a server that is full, or this user, may refuse to set it
        mark = send("GET", key)
        if mark is None:
            _, mark = send.all([("SET", key, uuid4().hex[:12], "NX"), ("GET", key)])
    except ResponseError:
        return ""
    return mark.decode() if isinstance(mark, bytes) else str(mark or "")
