"""RabbitMQ as a child process that shares nothing with any other.

The packaged wrapper on PATH switches user and drops the environment, so the
server's own script is called. With `NOTIFY_SOCKET` set that script replaces
itself with the virtual machine (its pid is then the child's pid) and the node
says itself when it is ready.

The port mapper (epmd) is normally started as a daemon that all nodes of a
machine share and none ends; here each node gets its own as a child.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import count

from tests.brokers.control import Control
from tests.brokers.few_plugins import with_few_plugins
from tests.brokers.missing import program
from tests.brokers.space import Depth, Space
from tests.ports import accepts, free_port
from tests.processes import Process, folder
from tests.waiting import wait_for

PACKAGE = "rabbitmq-server"
NAMED = "RABBITMQ_SERVER"
"""The variable that may name another `rabbitmq-server` than the system's."""
SERVER_SCRIPTS = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "/usr/local/sbin/rabbitmq-server")

CONFIG = """\
listeners.tcp.1 = 127.0.0.1:{port}
disk_free_limit.absolute = 10MB
log.file.level = info
"""

PLUGIN = "rabbitmq_consistent_hash_exchange"
PLUGINS = f"[{PLUGIN}]."
"""What is enabled; in a file of this form."""

_ERLANG = "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"

ENVIRONMENT = {
    "ERL_EPMD_ADDRESS": "127.0.0.1",
    # Nothing of the machine's own configuration may leak in.
    "RABBITMQ_CONF_ENV_FILE": "/nonexistent",
    _ERLANG: ("-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"),
}


_SLOW_STOP = "failed_to_start_child,auth,{already_started"


class RabbitMQ:
    kind = "rabbitmq"
    _rabbit: Mapping[str, int] = {}

    def __init__(self, server: str | None = None, /, **rabbit: int) -> None:
        """Prepare a node.

        Arguments:
            server: the path of a `rabbitmq-server`; else the environment's, or the system's.
            rabbit: the application's variables.
        """
        self._rabbit = rabbit
        named = filter(None, (server or os.environ.get(NAMED),))
        script = program("rabbitmq-server", *named, *SERVER_SCRIPTS, package=PACKAGE)
        self._epmd_program = program("epmd", package=PACKAGE)
        self.folder = folder("rabbitmq")
        self._server_script = with_few_plugins(script, PLUGIN, self.folder / "installed")
        self.port, self._dist_port, self._epmd_port = free_port(), free_port(), free_port()
        self._vhosts = count()
        self._empty: list[str] = []
        self._process: Process | None = None
        self._make_control(program("escript", package=PACKAGE))
        self._write_configuration()
        self._start_epmd()

    def _make_control(self, escript: str) -> None:
        self.escript = escript
        self.node = f"rabbit{self.port}@localhost"
        self.control = Control(escript, self.node, self.folder, self._environment)

    def _write_configuration(self) -> None:
        (self.folder / "rabbitmq.conf").write_text(CONFIG.format(port=self.port))
        (self.folder / "plugins").write_text(PLUGINS)

    def _start_epmd(self) -> None:
        args = [self._epmd_program, "-port", str(self._epmd_port), "-address", "127.0.0.1"]
        self._epmd = Process(args, self.folder / "epmd.log", os.environ)
        wait_for(lambda: accepts(self._epmd_port), 10, "epmd")

    @cached_property
    def _environment(self) -> dict[str, str]:
        home = str(self.folder)
        variables = [f"-rabbit {name} {value}" for name, value in self._rabbit.items()]
        return ENVIRONMENT | {
            _ERLANG: " ".join([os.environ.get(_ERLANG, ""), ENVIRONMENT[_ERLANG], *variables]),
            "PATH": os.environ["PATH"],
            "HOME": home,
            "NOTIFY_SOCKET": f"{home}/notify",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_MNESIA_BASE": f"{home}/mnesia",
            "RABBITMQ_LOG_BASE": f"{home}/log",
            "RABBITMQ_CONFIG_FILE": f"{home}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{home}/plugins",
        }

    @property
    def pid(self) -> int:
        """The pid of the virtual machine (beam)."""
        assert self._process is not None, "RabbitMQ was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def start(self) -> None:
        """Start the node without waiting for it; see `wait_ready`."""
        self._listen_for_notice()
        self._boot()

    def _boot(self) -> None:
        self._process = Process(
            [self._server_script], self.folder / "server.log", self._environment
        )

    def _listen_for_notice(self) -> None:
        path = self.folder / "notify"
        path.unlink(missing_ok=True)
        self._notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notices.bind(str(path))

    def wait_ready(self, timeout: float = 120) -> None:
        """Block until the node itself reports that it serves clients.

        On a busy machine Erlang's distribution may not have stopped, a second after it was told to,
        when RabbitMQ's boot starts it anew, which then fails: it is booted again.
        """
        deadline = time.monotonic() + timeout
        with self._notices as notices:
            while b"READY=1" not in self._notice(notices):
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"RabbitMQ is not ready:\n{self.log()}")
                if not self.running and _SLOW_STOP in self.log():
                    self._boot()

    def _notice(self, notices: socket.socket) -> bytes:
        notices.settimeout(0.5)
        try:
            return notices.recv(4096)
        except TimeoutError:
            return b""

    def stop(self) -> None:
        """Stop cleanly, as an operator would."""
        if self._process and self.running:
            self._process.send(signal.SIGTERM)
            self._process.wait()
        self._forget_process()

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, no connection is closed politely."""
        assert self._process is not None
        self._process.kill()
        self._forget_process()

    def _forget_process(self) -> None:
        if self._process:
            self._process.end()
            self._process = None

    def restart(self) -> None:
        """Stop cleanly if running, start, wait until ready."""
        self.stop()
        self.start()
        self.wait_ready()

    def end(self) -> None:
        """End everything that was started, and remove its folder."""
        self.control.end()
        self._forget_process()
        self._epmd.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        files = [self.folder / "server.log", *(self.folder / "log").glob("*.log")]
        return "\n".join(f.read_text(errors="replace") for f in files if f.exists())

    # Administration -------------------------------------------------------

    def url(self, place: str = "/") -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/{place}"

    def add_vhost(self, name: str | None = None) -> str:
        name = name or f"test{os.getpid()}.{next(self._vhosts)}"
        self.control("add_vhost", name)
        return name

    def delete_vhost(self, name: str) -> None:
        self.control("delete_vhost", name)

    def add_user(self, name: str, place: str, configure: str, write: str, read: str) -> str:
        """Make a user who may do what these patterns match; returns its URL."""
        self.control("add_user", name, place, configure, write, read)
        return f"amqp://{name}:{name}@127.0.0.1:{self.port}/{place}"

    @contextmanager
    def setting(self, **rabbit: int) -> Iterator[None]:
        """Set the application's variables for a while; what is connected keeps what it has."""
        before = {name: self._set(name, str(value)) for name, value in rabbit.items()}
        try:
            yield
        finally:
            for name, value in before.items():
                self._set(name, value)

    def _set(self, name: str, value: str) -> str:
        get, put = f"get_env(rabbit, {name})", f"set_env(rabbit, {name}, {value})"
        return self.control("eval", f"{{ok, Was}} = application:{get}, application:{put}, Was.")

    def space(self) -> Space:
        """A virtual host for one test, as new."""
        return Space(self, self._empty.pop() if self._empty else self.add_vhost())

    def take_back(self, space: Space) -> None:
        """The test is over, and its workers have ended."""
        if self.control("empty_vhost", space.place) == "done":
            self._empty.append(space.place)
        else:
            self.delete_vhost(space.place)

    def queue_depths(self, place: str = "/") -> dict[str, Depth]:
        """Exact depths, those of quorum queues too, in some milliseconds."""
        rows = (row.rsplit(":", 2) for row in self.control("depths", place).split("\t") if row)
        return {name: Depth(int(ready), int(unacked)) for name, ready, unacked in rows}
