"""Where runs are tracked: a SQLite file beside them, or the server that MLFLOW_TRACKING_URI names.

The store can always be filled again from the journals, so it needs no backup.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lab.errors import StoreError

VARIABLE = "MLFLOW_TRACKING_URI"
ANSWER_SECONDS = 10.0
LATER = "The journals are whole: `lab track RUN` fills the store later"
# In an address: who asks, with which password. The last @ of the part before the path ends it.
LOGIN = re.compile(r"(?<=//)[^/?#\s]*@|(?<![\w/])[^/?#\s:@]+:[^/?#\s]*@")
PARAMETER = re.compile(r"(?i)([?&][^=&\s]*(?:pass|pwd|token|secret|key)[^=&\s]*=)[^&\s]*")
UNUSABLE = "?%"  # MLflow takes them for a part of the address of its database


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """One place to track in. `database` is None unless it is the lab's own file; `artifacts` is empty
    where the server decides; `address` is that of a server which already runs, or empty."""

    uri: str
    database: Path | None
    artifacts: str
    address: str

    @property
    def is_missing(self) -> bool:
        """It is the lab's own file, which is made for the first run that is tracked."""
        return self.database is not None and not self.database.is_file()

    @property
    def shown(self) -> str:
        """Its address as it may be printed."""
        return masked(self.address or self.uri)

    def artifacts_of(self, experiment: str) -> Path:
        """The folder of an experiment's artifacts, beside the lab's own file."""
        assert self.database
        return self.database.parent / "mlartifacts" / experiment

    def hides(self, text: str) -> str:
        """A message of somebody else's, without the login and the password of this store."""
        parts = urlsplit(self.uri)
        for secret in filter(None, (parts.password, unquote(parts.password or ""))):
            text = text.replace(secret, "***")
        return masked(text)


def masked(text: str) -> str:
    """Without logins in addresses, and without passwords and keys among their parameters."""
    return PARAMETER.sub(r"\1***", LOGIN.sub("", text))


def find_store(runs: Path) -> Store:
    """The store that this machine is set to use. Touches nothing."""
    artifacts = (runs / "mlartifacts").resolve().as_uri()
    uri = os.environ.get(VARIABLE, "").strip()
    if not uri:
        database = (runs / "mlflow.db").resolve()
        if strange := next((sign for sign in UNUSABLE if sign in str(database)), ""):
            raise StoreError(
                f"{database}: MLflow cannot keep its database under a path with {strange!r} in it. The journals are "
                f"complete: name another folder with LAB_RUNS, or a store with {VARIABLE}, then `lab track` the run"
            )
        return Store(uri=f"sqlite:///{database}", database=database, artifacts=artifacts, address="")
    if "://" not in uri or uri.startswith("file:"):
        raise StoreError(
            f"{VARIABLE} is {masked(uri)!r}; MLflow no longer keeps runs in plain folders. Accepted are the address of "
            "a server (http://host:port) or a database (sqlite:///file, postgresql://...); unset it to use "
            f"{runs / 'mlflow.db'}"
        )
    if uri.startswith(("http://", "https://")):
        return Store(uri=uri.rstrip("/"), database=None, artifacts="", address=uri.rstrip("/"))
    return Store(uri=uri, database=None, artifacts=artifacts, address="")


@contextlib.contextmanager
def locked(runs: Path) -> Iterator[None]:
    """One process at a time makes, upgrades or fills the store; the others wait.

    MLflow breaks a new SQLite file that several processes open at once, and knows no unique tags.
    """
    try:
        try:
            runs.mkdir(parents=True, exist_ok=True)
        except OSError as refusal:
            raise StoreError(f"{runs}: no store can be made there ({refusal.strerror}); set LAB_RUNS") from None
        with _lock_file(runs).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except OSError as problem:
        if problem.filename != str(_lock_file(runs)):
            raise
        raise StoreError(f"{runs}: {problem.strerror}; the run store must be writable to track or browse") from None


def name_of_this_place(runs: Path) -> str:
    """The same for each process that may hold the lock of these runs on this host, and for no other. Call it locked."""
    file = _lock_file(runs)
    if not file.read_text():
        file.write_text(uuid.uuid4().hex)
    return hashlib.sha256(f"{file.read_text()} {platform.node()}".encode()).hexdigest()[:16]


def _lock_file(runs: Path) -> Path:
    return runs / ".mlflow.lock"


def check_answers(store: Store, later: str = LATER) -> None:
    """StoreError where a tracking server does not answer; any answer will do, a refusal too."""
    if not store.address:
        return
    try:
        with urllib.request.urlopen(f"{masked(store.address)}/health", timeout=ANSWER_SECONDS):
            return
    except urllib.error.HTTPError:
        return
    except (OSError, ValueError, HTTPException) as problem:
        raise StoreError(
            f"{VARIABLE} names {store.shown}, which does not answer ({store.hides(str(problem))}). Start that "
            f"server, or unset the variable to track in a local file. {later}"
        ) from None
