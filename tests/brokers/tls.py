"""Brokers that workers reach through TLS; who publishes and counts uses the port without it."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

from tests.brokers.door import Door
from tests.brokers.missing import program
from tests.brokers.rabbitmq import RabbitMQ
from tests.brokers.redis_server import RedisServer
from tests.ports import free_port

_REQUEST = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
_NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"


class _Certificate:
    """Of a server on loopback; it has signed itself."""

    def __init__(self, folder: Path) -> None:
        self.path, self.key = folder / "certificate.pem", folder / "key.pem"
        command = [program("openssl", package="openssl"), *_REQUEST, "-addext", _NAMES]
        command += ["-keyout", self.key, "-out", self.path]
        subprocess.run(command, check=True, capture_output=True)


class TlsRabbitMQ(RabbitMQ):
    """amqps."""

    def __init__(self, server: str | None = None, /, **rabbit: int) -> None:
        super().__init__(server, **rabbit)
        self._tls_port, self._certificate = free_port(), _Certificate(self.folder)
        options = {
            "listeners.ssl.1": f"127.0.0.1:{self._tls_port}",
            "ssl_options.certfile": self._certificate.path,
            "ssl_options.keyfile": self._certificate.key,
        }
        with (self.folder / "rabbitmq.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in options.items())

    def door(self, place: str) -> Door:
        """The way through TLS."""
        url = f"amqps://guest:guest@127.0.0.1:{self._tls_port}/{place}"
        checks = {"ca_certs": str(self._certificate.path), "cert_reqs": int(ssl.CERT_REQUIRED)}
        return Door(url, self._tls_port, conf={"broker_use_ssl": checks})


class TlsRedis(RedisServer):
    """rediss."""

    def __init__(self, durable: bool = False) -> None:
        super().__init__(durable)
        self._tls_port, self._certificate = free_port(), _Certificate(self.folder)
        self._options |= {
            "tls-port": str(self._tls_port),
            "tls-cert-file": str(self._certificate.path),
            "tls-key-file": str(self._certificate.key),
            "tls-auth-clients": "no",
        }

    def door(self, place: str) -> Door:
        """The way through TLS."""
        url = f"rediss://127.0.0.1:{self._tls_port}/{place}"
        checks = {"ssl_ca_certs": str(self._certificate.path), "ssl_cert_reqs": "required"}
        return Door(url, self._tls_port, conf={"broker_use_ssl": checks})
