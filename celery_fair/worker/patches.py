"""What is replaced in Celery, kombu and py-amqp: here, and nowhere else.

Most of it has no seam made for it; each function says what was there, and who takes its place.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import cache, partial
from heapq import heapify
from time import monotonic
from typing import Any, NoReturn

from amqp import ChannelError, Connection, RecoverableConnectionError, spec
from amqp.exceptions import error_for_code
from celery.app import trace
from celery.app.task import Context
from celery.worker import control
from celery.worker.consumer import consumer as celerys_consumer
from celery.worker.loops import synloop

from celery_fair.worker.wake_up import NO_WAIT, Interruptible, SocketWakeUp, SyncWakeUp, WakeUp

logger = logging.getLogger(__name__)

_EVENTS_EVERY = 1.0
"""Seconds between two looks for heartbeats of the connection for events."""

# Celery's app ---------------------------------------------------------------------


def say_in_banner(worker: Any, said: Callable[[], str]) -> None:
    """What follows in the banner that ``celery worker`` prints at its start."""
    extra = worker.extra_info
    worker.extra_info = lambda: said() + (extra() or "")


# Celery's consumer, once a process ------------------------------------------------


def replace_pool(c: Any, pool: Any) -> None:
    """The worker's pool, before Celery makes its strategies with it; its autoscaler has it, too."""
    for holder in (c, c.controller, getattr(c.controller, "autoscaler", None)):
        if holder is not None:
            holder.pool = pool


def maintain_quietly(pool: Any, quiet: Callable[[], AbstractContextManager[None]]) -> None:
    """How a prefork pool that runs replaces processes: amid that, ends of requests start nothing.

    Of a process that has died the last results are read amid it. A start may grow the pool, which
    replaces processes in turn.

    Where the system has none to give, as at a container's limit of processes, neither the message
    that was received just then is to blame, nor the connection; and billiard, which keeps one that
    was not started among the others, would fail by it from then on, and give its pipes to no other.
    """
    inner: Any = getattr(pool, "_pool", None)
    if not hasattr(inner, "maintain_pool") or "maintain_pool" in vars(inner):
        return  # of another kind, or done on an earlier connection
    maintain = inner.maintain_pool

    def quietly() -> None:
        try:
            with quiet():
                maintain()
        except (OSError, MemoryError) as exc:
            logger.warning("The pool cannot start a process (%r); it tries again in 5 s", exc)
            for unstarted in [each for each in inner._pool if each._popen is None]:
                inner._pool.remove(unstarted)
                inner._process_cleanup_queues(unstarted)

    inner.maintain_pool = quietly


def look_at_tracer_again() -> None:
    """Have Celery's consumer make tracers as `celery.app.trace` does by now.

    It was imported with this package. Who has put something around that since, as Sentry's
    ``init`` does, would not be heard.
    """
    module: Any = celerys_consumer
    module.build_tracer = trace.build_tracer


_CELERYS = {*vars(Context), "lang", "task", "argsrepr", "kwargsrepr", "compression"}


def find_own_headers_faster() -> None:
    """How a request's own headers are told from Celery's: it makes this set anew for each task."""
    kind: Any = Context
    kind._get_custom_headers = _own_headers


def _own_headers(_: Any, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
    given = dict(*args, **kwargs)
    return {name: given[name] for name in given if name not in _CELERYS} or None


def replace_requests(c: Any, on_request: Callable[[Any], object]) -> None:
    """Who is given the requests of Celery's strategies: else they go to the pool at once."""
    c.on_task_request = on_request


def end_in_the_loop(interrupt: Callable[[], object]) -> None:
    """How the remote command ``shutdown`` ends the worker: as a signal does, by the loop.

    Celery's raises SystemExit wherever its frame is read, also amid a wait for the broker's answer:
    what was acknowledged just then, or came with that answer, would be lost sight of.
    """
    celerys: Any = control

    def shutdown(*_: Any, msg: str = "Got shutdown from remote", **__: Any) -> None:
        celerys.logger.warning(msg)
        celerys.worker_state.should_stop = 0
        interrupt()

    celerys.Panel.data["shutdown"] = shutdown


def replace_loop(c: Any, wake_up: WakeUp) -> None:
    """Celery's synchronous loop, which waits for the broker alone; other loops are only woken.

    Kombu's calls what is due in any order, Celery's before 5.7 the last first: a queue that is
    cancelled and then added would be cancelled in the end.
    """
    call_soon = _in_order(c.call_soon)
    if isinstance(wake_up, SocketWakeUp | SyncWakeUp):
        c.loop = partial(_synchronous_loop, wake_up)
    # The loop is not woken for it: the synchronous one never, the other before Celery 5.7.
    if isinstance(wake_up, SocketWakeUp) or (c.hub and not hasattr(c, "call_soon_ack")):
        call_soon = _ringing(call_soon, wake_up.soon)
    c.call_soon = call_soon


def _synchronous_loop(
    wake_up: SocketWakeUp | SyncWakeUp, obj: Any, connection: Any, *args: Any, **kwargs: Any
) -> None:
    if obj.event_dispatcher and obj.event_dispatcher.connection:
        _look_now_and_then(obj.event_dispatcher.connection)
    synloop(obj, Interruptible(connection, wake_up), *args, **kwargs)


def _look_now_and_then(connection: Any) -> None:
    """How Celery, from 5.7 on, takes in the heartbeats of the connection that it sends events on.

    Its synchronous loop waits for them for 0.1 seconds, after each time that it has waited for
    messages: a worker with greenlets would start no more than ten tasks a second.
    """
    drain, again_at = connection.drain_events, 0.0

    def drain_events(**_: Any) -> None:
        nonlocal again_at
        if monotonic() < again_at:
            raise TimeoutError
        again_at = monotonic() + _EVENTS_EVERY
        drain(timeout=NO_WAIT)

    connection.drain_events = drain_events


def _in_order(call_soon: Callable[..., Any]) -> Callable[..., Any]:
    due: deque[Callable[[], object]] = deque()

    def call_all() -> None:
        while due:
            due.popleft()()

    def in_order(call: Callable[..., object], *args: Any, **kwargs: Any) -> Any:
        due.append(partial(call, *args, **kwargs))
        return call_soon(call_all)

    return in_order


def replace_add(c: Any) -> None:
    """How a queue is added: before Celery 5.7 one that was cancelled ended with the connection."""
    add, queues = c.add_task_queue, c.app.amqp.queues

    def add_task_queue(queue: str, *args: Any, **options: Any) -> None:
        if queue in queues:  # `queues[queue]` alone would make it
            queues.select_add(queues[queue])
        add(queue, *args, **options)

    c.add_task_queue = add_task_queue


def _ringing(call_soon: Callable[..., Any], ring: Callable[[], object]) -> Callable[..., Any]:
    """Wake the loop for what other threads call in it, such as acknowledgements."""

    def ringing(*args: Any, **kwargs: Any) -> Any:
        called = call_soon(*args, **kwargs)
        ring()
        return called

    return ringing


# Celery's consumer, for each connection ---------------------------------------------


def replace_consumer(c: Any, consumer: Any, qos: Any) -> None:
    """The consumer of the worker's queues, and its prefetch count."""
    c.qos_global = False  # Celery's prefetch reduction after a reconnect does not apply
    c.qos = qos
    c.on_decode_error = _undecodable
    c.task_consumer = consumer


def _undecodable(message: Any, exc: Exception) -> NoReturn:  # noqa: ARG001
    """Celery would acknowledge it, which deletes it; who called the handler refuses it instead."""
    raise exc


def forget_timed(timer: Any, messages: Iterable[Any]) -> None:
    """Celery's requests of these messages, which wait in its timer for their ETAs."""
    given = {id(message) for message in messages}
    if not given:
        return
    schedule = getattr(timer, "schedule", timer)
    queue, now = schedule._queue, monotonic()
    for scheduled in list(queue):
        if any(id(getattr(arg, "message", None)) in given for arg in scheduled.entry.args):
            if not hasattr(scheduled, "cancel"):
                scheduled.entry.cancel()
            elif scheduled.eta > now:  # a greenlet that sleeps; one that is awake is at work
                schedule.cancel(scheduled)
    if schedule is timer and isinstance(queue, list):  # no other thread is at it
        queue[:] = [scheduled for scheduled in queue if not scheduled.entry.canceled]
        heapify(queue)


# Kombu's channels, py-amqp's connections ----------------------------------------------


@cache
def make_clients(let_work: Callable[[Any, Any], Any]) -> None:
    """The clients of kombu's Redis channels, in a worker's process."""
    from kombu.transport import redis

    kind: Any = redis.Channel
    made = kind._create_client

    def create(channel: Any, asynchronous: bool = False) -> Any:
        return let_work(channel, made(channel, asynchronous))

    kind._create_client = create


def adopt(channel: Any, message_class: type) -> None:
    """The class of a channel's messages."""
    channel.Message = message_class


def acknowledge_by(channel: Any, ack: Callable[..., object]) -> None:
    """A channel's ``basic_ack``."""
    channel.basic_ack = partial(ack, channel)


def answer_by(
    channel: Any,
    got: Callable[..., object],
    got_none: Callable[..., object],
    declared: Callable[..., object],
) -> None:
    """Who is told of a channel's answers to ``basic.get`` and ``queue.declare``."""
    channel._callbacks[spec.Basic.GetOk] = got
    channel._callbacks[spec.Basic.GetEmpty] = got_none
    channel._callbacks[spec.Queue.DeclareOk] = declared


def tell_of_close(
    channel: Any, told: Callable[[int, Exception], object], always: bool = False
) -> None:
    """What a channel does when the broker closes it.

    py-amqp would open it anew, where the acknowledgements of old deliveries would be taken for
    those of new ones, and raise the broker's reason wherever its frame is read. Here the channel is
    no more, and `told` is given its number and the reason. Whoever waits for an answer on it gets
    the reason raised: instead, or with `always` as well.

    RabbitMQ says it again from time to time until it is answered, and quorum queues deliver
    meanwhile: what comes yet is of no channel any more, and dropped, or of the next one of its
    number.
    """
    by_amqp = channel._callbacks[spec.Channel.Close]

    def on_close(code: int, text: str, class_id: int, method_id: int) -> None:
        connection, number = channel.connection, channel.channel_id
        if channel.is_closing or connection.is_closing:
            by_amqp(code, text, class_id, method_id)
            return
        awaited = bool(channel._pending)
        channel.send_method(spec.Channel.CloseOk)
        channel.collect()
        channel._callbacks.clear()
        connection.channels[number] = channel  # until another one gets the number
        reason = error_for_code(code, text, (class_id, method_id), ChannelError)
        if always or not awaited:
            told(number, reason)
        if awaited:
            raise reason

    channel._callbacks[spec.Channel.Close] = on_close


def write_by(connection: Any, writer: Callable[..., object]) -> None:
    """What writes a connection's frames."""
    connection.frame_writer = writer


def read_by(connection: Any, reader: Callable[..., object]) -> None:
    """What takes in a connection's frames: a public seam."""
    connection.on_inbound_frame = reader


def give_up_on_the_silent() -> None:
    """How py-amqp reads: a broker that has not answered within ``read_timeout`` is left at once.

    Else each channel, and then the connection, would wait as long again for an answer to its
    closing, one after the other.
    """
    kind: Any = Connection
    kind.blocking_read = _read_or_leave


_read: Callable[..., Any] = Connection.blocking_read


def _read_or_leave(connection: Connection, timeout: float | None = None) -> Any:
    within = connection.read_timeout if timeout is None else None  # else its caller has other plans
    try:
        # py-amqp leaves it to the system to count, which does not know of greenlets.
        return _read(connection, within if timeout is None else timeout)
    except TimeoutError:
        if within is None:
            raise
        leave(connection)
        raise RecoverableConnectionError("the broker has not answered in time") from None


def leave(connection: Any) -> None:
    """Whom nobody answers says no goodbye: with TLS that would be waited for as well."""
    with suppress(OSError, AttributeError):
        connection.sock.settimeout(NO_WAIT)
    connection.collect()


def heard(connection: Any) -> None:
    """The broker lives: what its heartbeats are for."""
    connection.bytes_recv += 1


def keep(transport: Any, rest: bytes) -> None:
    """What was read and is no whole frame yet; py-amqp looks there first."""
    transport._read_buffer = rest


def is_lost(transport: Any) -> None:
    """The socket has failed, which py-amqp has not seen: nothing more is to be written."""
    transport.connected = False
