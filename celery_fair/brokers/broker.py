"""Which broker it is: kombu's name for its driver is looked at here, and nowhere else.

Of the brokers that kombu has a transport for, some a fair worker may consume. What a transport
promises, and how it says that a message was delivered before, differs by the transport. So those
are let through that this library's tests run on, as far as they run there; the others are refused
by name, before anything is consumed.

=========== ====================== ======================================================
RabbitMQ    ``amqp://``            all
Redis       ``redis://``           all; with TLS and Sentinel too
SQS         ``sqs://``             no partitions; non-repeatable tasks with a ledger alone
memory      ``memory://``          within a process: for demonstrations and tests
=========== ====================== ======================================================
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from celery.exceptions import ImproperlyConfigured
from kombu.exceptions import ChannelError

from celery_fair.brokers.amqp_letters import AmqpLetters
from celery_fair.brokers.amqp_mover import AmqpMover
from celery_fair.brokers.keyed.scripts import base_of
from celery_fair.brokers.lanes import be_patient, waiting_in_lanes
from celery_fair.brokers.mover import Mover, RedisMover, VirtualMover
from celery_fair.brokers.payload import published
from celery_fair.brokers.redis import MARK, Commands, marked
from celery_fair.brokers.virtual_letters import RedisLetters, VirtualLetters
from celery_fair.dead_letters.letter_queue import LetterQueue
from celery_fair.settings import Settings
from celery_fair.settings.values import ENCODED

CONNECTS, ANSWERS = 5.0, 10.0
"""Seconds that a worker waits for a connection, and for an answer; a user's options win."""


class Broker:
    """One of those that kombu emulates.

    Attributes:
        driver: kombu's name for it.
        pushes: whether messages come without being asked for.
        excludes: whether it can keep other workers from a queue.
        hashes: whether it has exchanges that find a key's partition.
        shares_by_key: whether a queue can be shared by key there.
        has_lanes: whether keys with a backlog have queues of their own, see `lanes`.
        keeps_tags: whether it keeps the keys' tags and limits itself, for all workers together.
        highest_first: whether high numbers of priority are served first, rather than low ones.
        mover: moves the messages that a worker holds.
        letters: is the queue of dead letters.
        bounds: options of the transport, by which no call waits for ever for an answer.
    """

    pushes = excludes = hashes = highest_first = False
    shares_by_key = has_lanes = keeps_tags = False
    mover: type[Mover] = VirtualMover
    letters: type[LetterQueue] = VirtualLetters
    bounds: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, driver: str) -> None:
        self.driver = driver

    def impatient(self, connection: Any, patience: float) -> Any:
        """Return a connection like one that is not open yet, by which `depth` is asked."""
        return connection

    def identity(self, connection: Any) -> str:
        """Return what all have in common who consume from the same queues, however they connect.

        Not a host's name, then: a cluster has several, and each of them may have more than one.

        Arguments:
            connection: to the broker, connected.

        Returns:
            A text that an operator understands; "" where nothing can be told.
        """
        return ""

    def oldest(self, channel: Any, queue: str) -> float | None:
        """Return when the message was published that is next there, in Unix time, if that is told.

        Only where it can be looked at without being taken.
        """
        return None

    def by_key(self, channel: Any, queues: Sequence[str]) -> dict[str, int]:
        """Ask how many messages wait by key, beside their queues, of those that have any."""
        return {}

    def depth(self, channel: Any, queue: str, patience: float, keyed: bool = False) -> int | None:
        """Ask how many messages wait in a queue; None if it is not there.

        Arguments:
            keyed: whether the queue is shared by key; what waits in its keys' places counts.

        Raises:
            Exception: whatever the transport raises if there is no answer for so many seconds.
        """
        return int(channel._size(queue))


class RedisBroker(Broker):
    """Redis, or what speaks like it."""

    shares_by_key = keeps_tags = True
    mover, letters = RedisMover, RedisLetters
    bounds: ClassVar[Mapping[str, Any]] = {
        "socket_connect_timeout": CONNECTS,
        "socket_timeout": ANSWERS,
        "socket_keepalive": True,
    }

    def identity(self, connection: Any) -> str:
        mark = marked(Commands(connection.default_channel))
        return mark and f"Redis, where {MARK} is {mark}"

    def oldest(self, channel: Any, queue: str) -> float | None:
        send = Commands(channel)
        heads = [send("LINDEX", key, -1) for key in send.lists(queue)]
        return min(filter(None, map(published, heads)), default=None)

    def by_key(self, channel: Any, queues: Sequence[str]) -> dict[str, int]:
        send = Commands(channel)
        asked = [("HGET", send.key(base_of(queue)), "waiting") for queue in queues]
        answers = zip(queues, send.all(asked) if asked else (), strict=True)
        return {queue: int(found) for queue, found in answers if int(found or 0)}

    def depth(self, channel: Any, queue: str, patience: float, keyed: bool = False) -> int | None:
        """Those in its keys' lists besides, if it is shared by key."""
        return int(channel._size(queue)) + self.by_key(channel, [queue]).get(queue, 0)

    def impatient(self, connection: Any, patience: float) -> Any:
        options = {"socket_timeout": patience, **(connection.transport_options or {})}
        return connection.clone(transport_options=options)


class AmqpBroker(Broker):
    """RabbitMQ."""

    pushes = excludes = hashes = highest_first = shares_by_key = has_lanes = True
    mover, letters = AmqpMover, AmqpLetters
    bounds: ClassVar[Mapping[str, Any]] = {"read_timeout": ANSWERS, "write_timeout": ANSWERS}

    def identity(self, connection: Any) -> str:
        cluster = connection.connection.server_properties.get("cluster_name")
        return (
            f"RabbitMQ, cluster {cluster}, virtual host {connection.virtual_host}"
            if cluster
            else ""
        )

    def by_key(self, channel: Any, queues: Sequence[str]) -> dict[str, int]:
        found = dict[str, int]()
        for queue in queues:
            with suppress(ChannelError):  # what it has for a register is another's
                found[queue] = waiting_in_lanes(channel, queue)
        return {queue: count for queue, count in found.items() if count}

    def depth(self, channel: Any, queue: str, patience: float, keyed: bool = False) -> int | None:
        be_patient(channel.connection, patience)
        try:
            front = int(channel.queue_declare(queue, passive=True).message_count)
        except ChannelError:  # there is no such queue; the channel has been opened anew
            return None
        return front + (waiting_in_lanes(channel, queue) if keyed else 0)


class SqsBroker(Broker):
    """Amazon's SQS."""


class MemoryBroker(Broker):
    """A process's memory."""


_KINDS = {"amqp": AmqpBroker, "memory": MemoryBroker, "redis": RedisBroker, "sqs": SqsBroker}


def shown(connection: Any) -> str:
    """Return a connection's URL without its password, also where that was not told as one.

    A slash in a password that is not encoded ends the host, as URLs are read.
    """
    url = str(connection.as_uri())
    scheme, _, rest = url.partition("://")
    place = rest.rpartition("@")[2]
    return f"{scheme}://…" if "%40" in place.upper() else url


def broker_of(connection: Any) -> Broker:
    """Return what a kombu connection leads to."""
    return _broker(connection.transport.driver_type)


@cache
def _broker(driver: str) -> Broker:
    return _KINDS.get(driver, Broker)(driver)


def letters_of(app: Any, connection: Any) -> LetterQueue:
    """Return the queue of an app's dead letters.

    Arguments:
        connection: to the app's broker; connected, and closed by the caller.

    Raises:
        celery.exceptions.ImproperlyConfigured: as `Settings.of`.
    """
    exchanges = {queue.exchange.name: queue.exchange for queue in app.amqp.queues.values()}
    return broker_of(connection).letters(connection, Settings.of(app).dead_letters, exchanges)


_NO_CLIENT = (ImportError, NameError, AttributeError, RuntimeError)
"""What kombu's transports raise, each as it is written, if their clients are not installed."""

NOT_MADE = (*_NO_CLIENT, KeyError, ValueError, TypeError)
"""What kombu raises if it cannot make a connection of a URL."""

_TESTED = (AmqpBroker, RedisBroker, SqsBroker, MemoryBroker)
_UNTESTED_DRIVERS = frozenset({"librabbitmq"})
_SETTING = "fair_allow_untested_transport"


def refuse_broker(
    connection: Any, settings: Settings, once: Sequence[str], loop: bool = True
) -> None:
    """Raise unless fair workers may consume from a broker as these settings and tasks say.

    Arguments:
        connection: kombu's, to the broker.
        once: the names of the app's non-repeatable tasks.
        loop: whether the worker has an event loop: not with gevent and eventlet.

    Raises:
        celery.exceptions.ImproperlyConfigured: saying what to do.
    """
    broker = broker_of(connection)
    if not settings.allow_untested_transport:
        _refuse_untested(broker, connection.transport.driver_name, settings, once, loop)
    for name, options in settings.queues.items():
        if options.exclusive and not broker.excludes:
            raise ImproperlyConfigured(
                f"fair_queues[{name!r}]['exclusive']: this broker ({broker.driver}) cannot keep"
                " other workers from a queue; RabbitMQ can. Leave 'exclusive' out"
            )
    if settings.keys and not broker.shares_by_key:
        raise ImproperlyConfigured(
            f"fair_keys[{next(iter(settings.keys))!r}]: queues are shared by key on RabbitMQ and"
            f" Redis, not on this broker ({broker.driver}). Leave fair_keys out of the workers'"
            " settings; publishers can name keys all the same"
        )
    for name, keyed in settings.keys.items():
        if keyed.is_limited and not broker.keeps_tags and settings.key_store is None:
            raise ImproperlyConfigured(
                f"fair_keys[{name!r}]: this broker ({broker.driver}) does not keep count of what a"
                " key runs in all workers together; a Redis does. Set fair_key_store ="
                " 'redis://…', or leave 'max_in_flight' and 'rate' out. For the queue, set"
                f" fair_queues[{name!r}]"
            )


def refuse_without_client(app: Any) -> None:
    """Raise unless the app's broker URL can be read, and the client that it needs is installed.

    Raises:
        celery.exceptions.ImproperlyConfigured: saying what to do.
    """
    try:
        if isinstance(broker_of(app.connection_for_read()), SqsBroker):
            import_module("boto3")  # which kombu looks for when it connects
    except NOT_MADE as exc:
        raise ImproperlyConfigured(not_made("broker_url", exc)) from None


def bound_waits(app: Any) -> None:
    """Have no call of the app's wait for its broker for ever, unless its options say otherwise.

    Nor what a Redis refuses for a while, as amid a failover or with a full disk, end the worker.
    """
    broker = broker_of(app.connection_for_read())
    options = {**broker.bounds, **(app.conf.broker_transport_options or {})}
    app.conf.update(broker_transport_options=options)
    if isinstance(broker, RedisBroker) and not app.conf.value_set_for("broker_channel_error_retry"):
        app.conf.update(broker_channel_error_retry=True)


def not_made(where: str, exc: Exception) -> str:
    """Return why no connection can be made of a URL, and what to do; without a password.

    Arguments:
        where: names what the URL was taken from.
        exc: one of `NOT_MADE`, which kombu raised.
    """
    if isinstance(exc, _NO_CLIENT):
        return missing_client(where, exc)
    return f"{where} cannot be read: it begins with amqp://, redis:// or sqs://; {ENCODED}"


def missing_client(where: str, what: object) -> str:
    """Return what is missing for a URL, and what to do."""
    return (
        f"{where}: the client library that kombu needs there is not installed ({what}). Redis's:"
        " pip install 'celery-fair[redis]'; SQS's: pip install 'celery-fair[sqs]'; RabbitMQ"
        " (amqp://) needs none. Fair workers are tested with no other broker"
    )


def _refuse_untested(
    broker: Broker, name: str, settings: Settings, once: Sequence[str], loop: bool
) -> None:
    if not isinstance(broker, _TESTED) or name in _UNTESTED_DRIVERS:
        raise ImproperlyConfigured(
            f"broker_url: fair workers are not tested with kombu's transport"
            f" {name!r}. Use RabbitMQ (amqp://), Redis (redis://) or SQS (sqs://);"
            f" or set {_SETTING} = True, and see for yourself what holds: shares may not, and"
            f" non-repeatable tasks may start twice"
        )
    if isinstance(broker, SqsBroker):
        _refuse_on_sqs(settings, once, loop)


def _refuse_on_sqs(settings: Settings, once: Sequence[str], loop: bool) -> None:
    if once and settings.ledger is None:
        raise ImproperlyConfigured(
            f"broker_url: SQS gives a message to another worker when its visibility timeout is"
            f" over, and now and then without, so that non-repeatable tasks ({', '.join(once)})"
            f" need a ledger there. Set fair_ledger = 'redis://…' or 'postgresql+psycopg://…', or"
            f" have them on RabbitMQ or Redis"
        )
    if settings.partitioned:
        raise ImproperlyConfigured(
            f"fair_partitions[{next(iter(settings.partitioned))!r}]: SQS keeps no order, and other"
            f" workers from no queue. Use RabbitMQ or Redis, or set {_SETTING} = True"
        )
    if not loop:
        raise ImproperlyConfigured(
            f"broker_url: with SQS, fair workers are not tested with gevent, eventlet, or without"
            f" an event loop. Start the worker with --pool prefork, threads or solo, or set"
            f" {_SETTING} = True"
        )
