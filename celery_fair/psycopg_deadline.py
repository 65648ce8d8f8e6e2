"""Connections to PostgreSQL that give up when an answer does not come.

psycopg waits for as long as the connection seems to last: for a server that is held up, for a lock
of somebody else's, and for a host that is gone. libpq has limits for connecting, and for a lost
host, but none for an answer.
"""

from collections.abc import Generator
from functools import cache
from time import monotonic
from typing import Any

from psycopg import Connection, OperationalError


@cache
def connecting(seconds: float) -> type[Connection[Any]]:
    """Return the class of connections that wait so long for each answer.

    They close themselves if it does not come, and raise `psycopg.OperationalError`: it may have
    been done all the same.
    """

    class WithDeadline(Connection[Any]):
        def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
            return super().wait(self._bounded(gen), *args, **options)

        def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            until = monotonic() + seconds
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted  # nothing, ten times a second
                    if not ready and monotonic() > until:
                        self.close()  # or its next answer would be that of this question
                        raise OperationalError(f"timed out: no answer within {seconds:g} s")
                    wanted = gen.send(ready)
            except StopIteration as done:
                return done.value

    return WithDeadline
