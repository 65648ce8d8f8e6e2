"""Which stage of a message's way through a worker a sample of its stack belongs to."""

import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["OTHER", "STAGES", "by_stage"]

STAGES = {
    "reading frames": (
        r"\(celery_fair/worker/\w+/(reader|buffered|frames)\.py"
        r"|^AmqpFeed\._(take_frames|arrived|deliver) |^Feed\._receive |^News\.arrived "
        r"|\.(read_frame|_read|blocking_read|drain_events|on_inbound_\w+|on_frame|dispatch_method"
        r"|_on_basic_deliver|_receive|_receive_callback) "
    ),
    "decoding headers": (
        r"\(celery_fair/worker/\w+/(undecoded|properties)\.py|^Message\.__init__ "
        r"|\.message_to_python "
        r"|^(loads|_read_item|decode_properties_basic) \(amqp/|\._?load_properties "
    ),
    "decoding the body": (
        r"^FastRequests\._decode |^Message\.(payload|_?decode) |^loads_message "
        r"|\(kombu/(serialization|utils/json)\.py"
    ),
    "acknowledging": (
        r"\(celery_fair/worker/amqp_io/ack_writer\.py"
        r"|\.(ack|ack_log_error|basic_ack|_?acknowledged) "
        r"|^AmqpSource\.flush "
    ),
    "running the task": r"\(celery/app/trace\.py|\(benchmarks/",
    "handing to the pool": (
        r"\(celery_fair/worker/\w+/(in_flight|boarding|slots|relay|prefork)\.py"
        r"|\(celery/concurrency/"
        r"|\.(execute_using_pool|_process_task|_process_task_sem) "
    ),
    "making the request": (
        r"\(celery/worker/(request|strategy|state)\.py|\.on_task_received "
        r"|\(celery_fair/worker/\w+/(fast_requests|requests|handover|admission|shield|consumer)\.py"
    ),
    "choosing": (
        r"\(celery_fair/core/(?!window)"
        r"|\(celery_fair/worker/\w+/(dispatcher|served|gate|cost|sizing)\.py"
    ),
    "event loop": (
        r"\(kombu/asynchronous/|\(celery/worker/loops\.py|\(celery_fair/worker/wake_up\.py"
    ),
}
"""What frames say so, as py-spy writes them: ``name (file:line)``.

Where the innermost one says nothing, as one of the standard library, or one that both writes and
reads, the one that called it is asked.
"""

OTHER = "other"

_patterns = {stage: re.compile(pattern) for stage, pattern in STAGES.items()}


def by_stage(lines: Iterable[str]) -> dict[str, float]:
    """Return each stage's share of the samples of py-spy's raw format."""
    counts: Counter[str] = Counter()
    for line in lines:
        stack, number = line.rsplit(" ", 1)
        counts[_stage(stack.split(";"))] += int(number)
    every = max(1, counts.total())
    return {stage: counts[stage] / every for stage in (*STAGES, OTHER)}


def _stage(frames: list[str]) -> str:
    for frame in reversed(frames):
        for stage, pattern in _patterns.items():
            if pattern.search(frame):
                return stage
    return OTHER
