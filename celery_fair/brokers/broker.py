"""Which broker it is: kombu's name for its driver is looked at here, and nowhere else."""

from functools import cache
from typing import Any

from kombu.exceptions import ChannelError

from celery_fair.brokers.amqp_letters import AmqpLetters
from celery_fair.brokers.keyed.lists import base_of
from celery_fair.brokers.lanes import waiting_in_lanes
from celery_fair.brokers.mover import AmqpMover, Mover, RedisMover, VirtualMover
from celery_fair.brokers.payload import published
from celery_fair.brokers.redis import MARK, Commands, acknowledge_held, marked
from celery_fair.brokers.redis_letters import RedisLetters
from celery_fair.brokers.virtual_letters import VirtualLetters
from celery_fair.dead_letters.letter_queue import LetterQueue
from celery_fair.settings import Settings

__all__ = [
    "AmqpBroker",
    "Broker",
    "MemoryBroker",
    "RedisBroker",
    "SqsBroker",
    "broker_of",
    "letters_of",
    "shown",
]


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
    """

    pushes = excludes = hashes = highest_first = False
    shares_by_key = has_lanes = keeps_tags = False
    mover: type[Mover] = VirtualMover
    letters: type[LetterQueue] = VirtualLetters

    def __init__(self, driver: str) -> None:
        self.driver = driver

    def acknowledge(self, message: Any) -> None:
        """Acknowledge a message whose task may start only if it is still held here.

        Raises:
            Exception: whatever the transport does, or `NotHeldError`; it must not start.
        """
        message.ack()

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

    def consumers(self, channel: Any, queue: str) -> int:
        """Return how many consume a queue whose messages go to one of them each; 0 if unknown."""
        return 0

    def oldest(self, channel: Any, queue: str) -> float | None:
        """Return when the message was published that is next there, in Unix time, if that is told.

        Only where it can be looked at without being taken.
        """
        return None

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

    def identity(self, connection: Any) -> str:
        mark = marked(Commands(connection.default_channel))
        return mark and f"Redis, where {MARK} is {mark}"

    def oldest(self, channel: Any, queue: str) -> float | None:
        send = Commands(channel)
        heads = [send("LINDEX", key, -1) for key in send.lists(queue)]
        return min(filter(None, map(published, heads)), default=None)

    def depth(self, channel: Any, queue: str, patience: float, keyed: bool = False) -> int | None:
        """Those in its keys' lists besides, if it is shared by key."""
        sorted_ = Commands(channel)("HGET", Commands(channel).key(base_of(queue)), "waiting")
        return int(channel._size(queue)) + int(sorted_ or 0)

    def acknowledge(self, message: Any) -> None:
        acknowledge_held(Commands(message.channel), message)

    def impatient(self, connection: Any, patience: float) -> Any:
        options = {"socket_timeout": patience, **(connection.transport_options or {})}
        return connection.clone(transport_options=options)


class AmqpBroker(Broker):
    """RabbitMQ."""

    pushes = excludes = hashes = highest_first = shares_by_key = has_lanes = True
    mover, letters = AmqpMover, AmqpLetters

    def identity(self, connection: Any) -> str:
        cluster = connection.connection.server_properties.get("cluster_name")
        return (
            f"RabbitMQ, cluster {cluster}, virtual host {connection.virtual_host}"
            if cluster
            else ""
        )

    def consumers(self, channel: Any, queue: str) -> int:
        try:
            return int(channel.queue_declare(queue, passive=True).consumer_count)
        except ChannelError:  # there is no such queue, or it is another's alone
            return 0

    def depth(self, channel: Any, queue: str, patience: float, keyed: bool = False) -> int | None:
        channel.connection.sock.settimeout(patience)
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
