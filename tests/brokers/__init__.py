"""Brokers and other servers as child processes: on loopback, on free ports, in a folder."""

from __future__ import annotations

from tests.brokers.mariadb import MariaDB
from tests.brokers.postgresql import PostgreSQL
from tests.brokers.rabbitmq import RabbitMQ
from tests.brokers.redis_server import RedisServer
from tests.brokers.space import Space
from tests.brokers.zookeeper import ZooKeeper

__all__ = ["MariaDB", "PostgreSQL", "RabbitMQ", "RedisServer", "Space", "ZooKeeper"]
