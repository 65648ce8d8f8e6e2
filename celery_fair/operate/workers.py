"""The workers as they are asked, over the app's broker: once, or again and again."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kombu.exceptions import OperationalError

from celery_fair.brokers.broker import shown
from celery_fair.brokers.depths import depths_of, oldest_of
from celery_fair.operate.answers import Answers
from celery_fair.operate.broker import connection_to, trouble_with
from celery_fair.operate.errors import NoAnswerError
from celery_fair.routing.declared import queues_of

_SEARCH = 10
"""Every so many times all workers are asked, not only those known: that takes the whole timeout."""


class Workers:
    """All workers of an app's broker, or some by their names.

    Arguments:
        app: the Celery app.
        named: names of workers; none for all.
        timeout: how long, in seconds, an answer is waited for.
    """

    def __init__(self, app: Any, named: Sequence[str], timeout: float) -> None:
        self.app = app
        self.named = tuple(dict.fromkeys(named))
        self.timeout = timeout
        self._connection: Any = None

    def ask(self, command: str, named: Sequence[str] = (), **arguments: Any) -> Answers:
        """Send a remote-control command, wait for the answers.

        Those who are asked by name are waited for no longer than until all have answered.

        Arguments:
            named: ask these instead, who have answered before.

        Raises:
            NoAnswerError: from anybody, or no connection.
        """
        named = tuple(named) or self.named
        replies = self._broadcast(command, named, arguments)
        raw = {worker: answer for reply in replies for worker, answer in reply.items()}
        if not raw:
            raise NoAnswerError(self._silence(command, named), silent=True)
        return Answers.of(raw, named, self.timeout)

    def status(self, named: Sequence[str] = ()) -> Answers:
        """Ask fair workers for their queues' figures; those of other apps are left out.

        Arguments:
            named: as `ask`.

        Raises:
            NoAnswerError: as `ask`.
        """
        answers = self.ask("fair_status", named)
        return answers.of_app(self.app.main or "", queues_of(self.app), self.named)

    def waiting(
        self, queues: Collection[str], keyed: Collection[str]
    ) -> tuple[dict[str, int], dict[str, float]]:
        """Ask the broker what waits there, and when the oldest of it was published.

        Arguments:
            keyed: queues that are shared by key.

        Raises:
            NoAnswerError: it does not say.
        """
        connection = self._connected()
        try:
            return depths_of(connection, queues, keyed), oldest_of(connection, queues)
        except Exception as exc:  # each transport has errors of its own
            self.close()
            raise NoAnswerError(
                f"the broker {self._broker} does not say what waits: {exc}"
            ) from exc

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.release()
            self._connection = None

    def _broadcast(
        self, command: str, named: Sequence[str], arguments: dict[str, Any]
    ) -> list[dict[str, Any]]:
        connection = self._connected()
        lost = (*connection.connection_errors, *connection.channel_errors)
        try:
            replies: list[dict[str, Any]] | None = self.app.control.broadcast(
                command,
                arguments=arguments,
                destination=list(named) or None,
                connection=connection,
                reply=True,
                timeout=self.timeout,
            )
        except (OperationalError, *lost) as exc:  # the first is a publisher's, who has tried again
            self.close()
            if "maxmemory" in str(exc):
                raise NoAnswerError(
                    f"the broker {self._broker} is full, at its maxmemory, and takes no {command}:"
                    " let fair workers work it off, or raise maxmemory (fair doctor says more)"
                ) from exc
            raise NoAnswerError(
                f"the broker {self._broker} does not take {command}, or ended the connection:"
                f" {str(exc) or type(exc).__name__}"
            ) from exc
        return replies or []

    def _connected(self) -> Any:
        if self._connection is None:
            connection = connection_to(self.app.connection_for_write)
            trouble = trouble_with(connection)
            if trouble is not None:
                connection.release()
                raise NoAnswerError(trouble)
            self._connection = connection
        return self._connection

    @property
    def _broker(self) -> str:
        return shown(self.app.connection_for_write())

    def _silence(self, command: str, named: Sequence[str]) -> str:
        asked = f"{', '.join(named)} did not answer" if named else "no worker has answered"
        return (
            f"{asked} {command} within {self.timeout:g} s on {self._broker}. `celery -A app status`"
            " shows the names of those that run there. A solo worker answers between two tasks"
            " only: give it more --timeout."
        )


class Crowd:
    """Asks the same again and again: the workers that are known, at once; at times, all."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._known: tuple[str, ...] = ()
        self._all = Answers()
        self._asked = 0

    def status(self) -> Answers:
        """Return the workers' status.

        Raises:
            NoAnswerError: as `Workers.ask`.
        """
        answers, all_were_asked = self._ask(self._workers.status)
        if all_were_asked:
            self._all = answers
        return replace(answers, notes=self._all.notes, others=self._all.others)

    def keys(self, queue: str, tenant: str | None = None) -> list[Mapping[str, Any]]:
        """Return what each worker knows of a queue's keys; nothing if nobody answers.

        Arguments:
            tenant: of this one; None: of those that have most.

        Raises:
            NoAnswerError: they cannot be asked.
        """

        def ask(named: Sequence[str]) -> Answers:
            return self._workers.ask("fair_keys", named, queue=queue, tenant=tenant)

        try:
            return list(self._ask(ask)[0].good.values())
        except NoAnswerError as exc:
            if exc.silent:
                return []
            raise

    def _ask(self, ask: Callable[[Sequence[str]], Answers]) -> tuple[Answers, bool]:
        named = self._known if self._asked % _SEARCH else ()
        self._asked += 1
        self._known = ()  # should nobody answer
        answers = ask(named)
        self._known = tuple(answers.good)
        return answers, not named
