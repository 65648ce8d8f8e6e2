"""What is in the event log: one JSON object a line, of one of six kinds.

Readers leave out fields that they do not know, and read a missing one as null; a record whose `v`
is not `VERSION` they do not read. Times are whole microseconds since 1970, of the clock of the host
that writes; durations are whole microseconds.

A *process* is one life of one operating system process: under prefork the worker and each child
write a file each. It is named by `node`, `pid` and `boot`, and counts its records from 0 in `seq`:
a gap shows that records are missing. The event's id is `node:pid:boot:seq`.

`started` is written before the work. A process that was killed writes nothing afterwards, so only
an intent can show that work was begun. Of a non-repeatable task the main process writes `admitted`
before that, and before the acknowledgement: where it cannot be written, the task does not start.
If a child process was stopped in the middle of a task, or
has died, the main process writes `finished` for it, with `broken_off`; the child may have written
its own, and then that is the true one. A `process` record with the state `exit`, or with `dead`,
which another worker on the same host appends to the file of a process that is gone, shows that no
more ends will be written.

`settings` says what a queue's messages are charged and what the queue is shared by. A worker's main
process writes one for each queue that it consumes: when it begins to, when something has changed
(noticed within a second), and again each hour, because the oldest files of a log are deleted. It
holds until the process's next one of the queue.
"""

from typing import Final

VERSION: Final = 1

Kind = dict[str, tuple[str, str]]
"""Fields of one kind of record: name to (type, meaning); the type is one of `string`, `long`,
`double`, `boolean`, `map<string,double>` and `microseconds`, a whole number. Each may be null."""

FIELDS: Final[Kind] = {
    "v": ("long", "version of the record"),
    "kind": ("string", "admitted, started, finished, rejected, queue, settings, process"),
    "node": ("string", "the worker's node name, `celery@host`"),
    "pid": ("long", "process id"),
    "boot": ("string", "another one for each process; of one start of a host alike at first"),
    "seq": ("long", "0, 1, 2, … within the process; not in `dead`"),
    "at": ("microseconds", "when it was written"),
}
"""What every record has."""

KINDS: Final[dict[str, Kind]] = {
    "admitted": {
        "id": ("string", "the task's id"),
        "retries": ("long", "as in a start"),
        "task": ("string", "the task's name"),
        "queue": ("string", "the queue that it was taken from"),
        "published": ("microseconds", "when it was published, by the publisher's clock"),
    },
    "started": {
        "id": ("string", "the task's id"),
        "retries": ("long", "how often the task was retried before; each retry is another start"),
        "task": ("string", "the task's name"),
        "queue": ("string", "the queue that it was taken from"),
        "key": ("string", "whose it is, as its publisher wrote it: `tenant`, or `tenant/part`"),
        "published": ("microseconds", "when it was published, by the publisher's clock"),
        "received": ("microseconds", "when the worker got the message"),
        "redelivered": ("boolean", "whether the broker had handed it out before"),
        "repeatable": ("boolean", "false for a NonRepeatableTask"),
        "cost_key": ("string", "what its cost was estimated by"),
        "cost": ("double", "what its queue was charged at dispatch"),
    },
    "finished": {
        "id": ("string", "the task's id"),
        "retries": ("long", "as in its start"),
        "task": ("string", "the task's name"),
        "queue": ("string", "the queue that it was taken from"),
        "state": ("string", "SUCCESS, FAILURE, RETRY, IGNORED, REJECTED or REVOKED"),
        "runtime": ("microseconds", "from the start of the work to its end, by a monotonic clock"),
        "cost_key": ("string", "as in its start"),
        "exception": ("string", "the exception's class, of a failure"),
        "broken_off": ("boolean", "true if another process wrote it, for one that could not"),
    },
    "rejected": {
        "id": ("string", "the task's id, if the message has one"),
        "retries": ("long", "as in a start"),
        "task": ("string", "the task's name, if the message has one"),
        "queue": ("string", "the queue that it was taken from"),
        "key": ("string", "as in a start"),
        "published": ("microseconds", "when it was published"),
        "reason": ("string", "why it went to the dead letters (`x-fair-reason`)"),
        "may_have_started": ("boolean", "what the dead letter says of itself"),
    },
    "queue": {
        "queue": ("string", "the queue's name"),
        "state": ("string", "ready (has messages), empty, throttled (by leash, cap), unassigned"),
        "since": ("microseconds", "since when; that is before the record is written"),
        "quantum": ("double", "its quantum now"),
        "level": ("long", "its class: a higher one is first; with a target, one of its own"),
        "depth": ("long", "messages that wait for it at the broker, if that is known"),
    },
    "settings": {
        "queue": ("string", "the queue's name"),
        "costs": ("string", "what costs are: one (a message), runtime (seconds), or custom"),
        "policy": ("string", "dwrr, or strict: a higher class is served first"),
        "max_wait": ("double", "seconds of waiting that count for one class, under strict"),
        "quantum": ("double", "its quantum"),
        "level": ("long", "its class"),
        "target": ("string", "what its messages may wait; null: it has no target"),
        "importance": ("long", "which target is missed last: the highest one's"),
        "rate": ("double", "starts per second that its leash allows; null: it has none"),
        "burst": ("long", "starts that its leash allows at once"),
        "scope": ("string", "whose leash that is: worker, or cluster, of all workers together"),
        "cap": ("long", "tasks of it that this worker runs at once; null: any number"),
        "fetch": ("string", "push, or pull: asked for one by one"),
        "ahead": ("long", "messages that the broker may send ahead, at first; null: it sends none"),
        "key_weight": ("double", "weight of each key that has none of its own; null: not by key"),
        "key_weights": ("map<string,double>", "weights that keys have of their own, also live"),
        "key_cap": ("long", "tasks of a key that all workers run at once; null: any number"),
        "key_caps": ("map<string,double>", "caps that keys have of their own; 0: any number"),
        "key_rate": ("double", "starts of a key per second, in all workers; null: any number"),
        "key_rates": ("map<string,double>", "rates that keys have of their own; 0: any number"),
        "key_burst": ("long", "starts of a key at once, under a rate"),
        "key_bursts": ("map<string,double>", "bursts that keys have of their own"),
    },
    "process": {
        "state": ("string", "`boot`, `heartbeat`, `child`, `exit`, or `dead` (by another process)"),
        "child": ("long", "in `child`: the id of a process of the pool's, which has begun a task"),
        "parent": ("string", "`boot` of the worker's main process; its own in that process"),
        "concurrency": ("long", "slots of the worker"),
        "pool": ("string", "prefork, thread, solo, gevent or eventlet"),
        "heartbeat": ("microseconds", "time between two heartbeats"),
        "quanta": ("map<string,double>", "quantum of each queue that the worker consumes"),
        "costs": ("string", "what costs are: one (a message), runtime (seconds), or custom"),
        "dropped": ("long", "records that could not be written, so far"),
        "last": ("long", "in `dead`: the number of the last record that was found"),
        "rotate": ("microseconds", "age at which a file is sealed, with the next record"),
        "version": ("string", "of celery-fair"),
    },
}
"""The six kinds, and what each has besides."""
