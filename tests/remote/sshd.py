"""A real sshd on loopback, and a proxy before it that breaks a connection where a test says."""

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import small_caches
from waiting import wait_until

from lab.process.leftovers import adopt_orphans

NEEDED = {"sshd": "openssh-server", "ssh": "openssh-client", "rsync": "rsync"}
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
LACKING = [package for name, package in NEEDED.items() if not (SSHD if name == "sshd" else shutil.which(name))]


@dataclass(frozen=True, slots=True)
class Sshd:
    """`ssh` reaches it with these words. What it runs finds the lab, and what a test left in `folder`."""

    folder: Path
    port: int
    ssh: str

    def through(self, proxy: "Proxy") -> str:
        return self.ssh.replace(f"-p {self.port}", f"-p {proxy.port}")


@contextmanager
def sshd(folder: Path) -> Iterator[Sshd]:
    """Serves this user on a free port, without PAM, with a key and a home of its own: what a user's ~/.bashrc starts,
    bash would start with each of a hundred connections.

    What it leaves running becomes a child of this process, which never waits for it, as in a container without init.
    """
    assert SSHD is not None
    adopt_orphans()
    folder.mkdir()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    Path("/run/sshd").mkdir(exist_ok=True) if os.getuid() == 0 else None
    port = _free_port()
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        f"PidFile {folder}/pid\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nMaxStartups 100\n"
        f"SetEnv PYTHONPATH={small_caches.PYTHONPATH} HOME={folder}\n"
    )
    log = (folder / "log").open("wb")
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(folder / "config")], stdout=log, stderr=log)
    ssh = (
        f"ssh -F none -i {folder}/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no "
        f"-o UserKnownHostsFile={folder}/known -o LogLevel=ERROR -p {port}"
    )
    try:
        wait_until(lambda: server.poll() is not None or _answers(port), "sshd does not answer")
        assert server.poll() is None, (folder / "log").read_text()
        yield Sshd(folder=folder, port=port, ssh=ssh)
    finally:
        server.terminate()
        server.wait()
        log.close()


@dataclass
class Proxy:
    """Passes bytes between ssh and sshd, and breaks connections: each after its number of bytes in `breaks`, None for
    never, and of those that come later the first that passes `later_bytes`."""

    to_port: int
    breaks: Sequence[int | None]
    later_bytes: int
    connections: int = 0
    broken: list[int] = field(default_factory=list)  # the numbers of these connections, from 0
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> "Proxy":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client = self._listener.accept()[0]
                number, self.connections = self.connections, self.connections + 1
                server = socket.create_connection(("127.0.0.1", self.to_port))
                _Pipe(self, client, server, number)

    def limit_bytes(self, number: int) -> int | None:
        if number < len(self.breaks):
            return self.breaks[number]
        later = any(each >= len(self.breaks) and each != number for each in self.broken)
        return None if later else self.later_bytes


class _Pipe:
    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket, number: int) -> None:
        self._proxy, self._sockets, self._number, self._lock = proxy, (client, server), number, threading.Lock()
        self._left = proxy.limit_bytes(number)
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(512):
                with self._lock:
                    if self._left is not None:
                        self._left -= len(data)
                        if self._left < 0:
                            self._break()
                            return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _break(self) -> None:
        if self._number not in self._proxy.broken:
            self._proxy.broken.append(self._number)
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False
