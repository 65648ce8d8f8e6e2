"""What a worker leans on inside Celery, kombu, billiard and py-amqp, looked for when it starts.

Nobody has promised that these stay. With one of `FAST` missing the fast path is left alone, and
everything goes the plain way; without one of `NEEDED` there is no way, and the worker says so
rather than fail amid its work. What is there and means something else by now is not noticed here:
so a Celery that no test has met is named at the start.

What a class's instances have is found in the class, or by its name in one of its methods, which
set it.
"""

from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.metadata import version
from inspect import signature
from types import CodeType
from typing import Any, NamedTuple

from celery.exceptions import ImproperlyConfigured

TESTED = ("5.5", "5.6", "5.7")
"""Releases of Celery that the tests run on."""


class Seam(NamedTuple):
    """A place in another library.

    Attributes:
        place: a module, or ``module:object``.
        has: attributes of it, or of a class's instances.
        takes: arguments that a function is given by their names.
    """

    place: str
    has: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


def _seam(place: str, has: str = "", takes: str = "") -> Seam:
    return Seam(place, tuple(has.split()), tuple(takes.split()))


NEEDED = (
    _seam("amqp.abstract_channel:AbstractChannel", "_callbacks _pending send_method wait"),
    _seam("amqp.basic_message:Message", "_serialize_properties"),
    _seam("amqp.channel:Channel", "_on_get_ok"),
    _seam(
        "amqp.connection:Connection",
        "frame_writer on_inbound_frame bytes_recv transport blocking_read collect read_timeout",
    ),
    _seam("amqp.serialization", "decode_properties_basic"),
    _seam("billiard.pool:ApplyResult", "_accepted _write_to"),
    _seam("billiard.process:BaseProcess", "_controlled_termination"),
    _seam("celery.app.amqp:AMQP", "_create_task_sender queues"),
    _seam("celery.app.amqp:Queues", "_consume_from select_add deselect"),
    _seam(
        "celery.concurrency.asynpool:AsynPool",
        "outbound_buffer _all_inqueues _active_writes _active_writers _busy_workers _cache"
        " _fileno_to_outq handle_result_event",
    ),
    _seam("celery.concurrency.base:BasePool", "_pool"),
    _seam("celery.worker.consumer.consumer", "build_tracer"),
    _seam(
        "celery.worker.consumer:Consumer",
        "add_task_queue call_soon connection_errors event_dispatcher initial_prefetch_count loop"
        " on_decode_error on_task_request pool qos strategies task_buckets task_consumer timer",
    ),
    _seam("celery.worker.loops:synloop", takes="obj connection"),
    _seam("celery.worker.request:Request", "_already_revoked _payload on_failure time_limits"),
    _seam("celery.worker.state", "reserved_requests revoked task_ready task_reserved"),
    _seam("celery.worker.strategy:default", takes="task app consumer"),
    _seam("kombu.asynchronous.hub:Hub", "_ready"),
    _seam("kombu.message:Message", "_reraise_error accept errors payload"),
    _seam("kombu.transport.virtual:Channel", "_size"),
    _seam("kombu.transport.virtual:Message", "_raw"),
)

FAST = (
    _seam("amqp.serialization", "decode_properties_basic"),
    _seam("amqp.transport:TCPTransport", "_read_buffer sock connected"),
    _seam("celery._state", "_task_stack"),
    _seam("celery.app.task:Context", "update headers"),
    _seam("celery.app.task:Task", "__trace__ request_stack resultrepr_maxsize"),
    _seam(
        "celery.app.trace",
        "LOG_RECEIVED LOG_SUCCESS _localized _signal_internal_error get_task_name info logger"
        " report_internal_error traceback_clear",
    ),
    _seam("celery.app.trace:TraceInfo", "handle_error_state handle_ignore handle_reject retval"),
    _seam(
        "celery.app.trace:fast_trace_task",
        takes="task uuid request body content_type content_encoding",
    ),
    _seam("celery.app.trace:task_has_custom", takes="task attr"),
    _seam("celery.backends.base:Backend", "mark_as_done persistent process_cleanup store_result"),
    _seam("celery.backends.base:DisabledBackend"),
    _seam("celery.concurrency.base:apply_target", takes="target args kwargs callback"),
    _seam("celery.concurrency.solo:TaskPool", "on_apply"),
    _seam("celery.concurrency.thread:TaskPool", "executor limit"),
    _seam(
        "celery.worker.request:create_request_cls",
        takes="base task pool hostname eventer task_ready trace app",
    ),
    _seam("celery.worker.state", "task_ready task_reserved"),
    _seam("kombu.serialization:registry", "_decoders"),
    _seam("kombu.utils.json", "loads object_hook"),
)


def missing(seams: Iterable[Seam]) -> Iterator[str]:
    """Yield what is not there of some seams, each as ``module:object.attribute``."""
    for seam in seams:
        found = _found(seam.place)
        if found is None:
            yield seam.place
            continue
        dot = "." if ":" in seam.place else ":"
        yield from (f"{seam.place}{dot}{name}" for name in seam.has if not _has(found, name))
        yield from (f"{seam.place}({name})" for name in seam.takes if not _takes(found, name))


def require() -> None:
    """See to it that a worker can work.

    Raises:
        celery.exceptions.ImproperlyConfigured: something is missing that it cannot do without.
    """
    gone = sorted(missing(NEEDED))
    if gone:
        raise ImproperlyConfigured(
            f"celery-fair {version('celery-fair')} does not fit Celery {version('celery')}, kombu"
            f" {version('kombu')}, py-amqp {version('amqp')}: {', '.join(gone)} is not there;"
            f" install Celery {TESTED[-1]}, or a newer celery-fair"
        )


def untested() -> str | None:
    """Return the version of Celery if it is newer than those that the tests run on."""
    found = version("celery")
    release = tuple(int(part) for part in found.split(".")[:2])
    newest = tuple(int(part) for part in TESTED[-1].split("."))
    return found if release > newest else None


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    try:
        found = import_module(module)
    except ImportError:
        return None
    return getattr(found, name, None) if name else found


def _has(found: Any, name: str) -> bool:
    return hasattr(found, name) or (isinstance(found, type) and name in _named_by(found))


def _named_by(class_: type) -> set[str]:
    """Names that a class's methods, and those of its bases, use; also in functions within them."""
    codes = [
        function.__code__
        for base in class_.__mro__
        for function in vars(base).values()
        if hasattr(function, "__code__")
    ]
    names: set[str] = set()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    return names


def _takes(found: Any, name: str) -> bool:
    return name in signature(found).parameters
