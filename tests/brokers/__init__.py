"""Brokers and a database as child processes: on loopback, on free ports, in a temporary folder."""

from __future__ import annotations

from tests.brokers.postgresql import PostgreSQL
from tests.brokers.rabbitmq import RabbitMQ
from tests.brokers.redis_server import RedisServer
from tests.brokers.space import Space

__all__ = ["PostgreSQL", "RabbitMQ", "RedisServer", "Space"]
