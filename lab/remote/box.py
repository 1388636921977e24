"""A box that is reached by ssh: where the tree lies there, and the command lines that reach it. Pure."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from lab.errors import PlanError

HOST = re.compile(r"(?P<host>(?:[\w.-]+@)?\w[\w.-]*)(?::(?P<folder>[^-\s].*))?", re.ASCII)
# A dead connection is noticed within a minute; ssh never asks for a password in the middle of a run.
SSH_OPTIONS = (
    "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3",
)  # fmt: skip
# What a measurement does not need; nor may what the box has of its own be deleted there.
NOT_COPIED = ("/.git", "/.remote/", "/.venv/", "/.cache/", "__pycache__/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """`host` as ssh takes it; `folder` on the box, relative to the home directory where it has no slash in front."""

    host: str
    folder: str
    ssh: tuple[str, ...] = ("ssh",)

    @property
    def shell(self) -> list[str]:
        """Runs the POSIX shell script that its stdin gives."""
        return [*self.ssh, *SSH_OPTIONS, self.host, "sh"]

    def push(self, root: Path, left_out: tuple[str, ...] = ()) -> list[str]:
        """Makes the box's folder equal to `root`, but for what git ignores and what is left out."""
        excluded = (f"--exclude={pattern}" for pattern in (*NOT_COPIED, *left_out))
        return [
            *self._rsync(), "--delete", *excluded, "--filter=:- .gitignore", f"{root}/", f"{self.host}:{self.folder}/",
        ]  # fmt: skip

    def fetch(self, place: str, into: Path) -> list[str]:
        """Copies a folder of the box, named relative to the box's folder, into a local one."""
        return [*self._rsync(), f"{self.host}:{self.folder}/{place}/", f"{into}/"]

    def _rsync(self) -> tuple[str, ...]:
        # -s: the box's shell does not read the names. --partial: what a lost connection brought is not copied again.
        # --timeout: a box whose disk hangs still answers ssh.
        return "rsync", "-rlptzs", "--partial", "--timeout=120", "-e", shlex.join([*self.ssh, *SSH_OPTIONS])


def box_of(text: str, project_name: str, ssh: str) -> Box:
    """From HOST or HOST:FOLDER, as scp writes it. PlanError where it is neither."""
    match = HOST.fullmatch(text)
    if match is None:
        raise PlanError(f"--host: {text!r} is no host; accepted is [USER@]HOST or [USER@]HOST:FOLDER, as for scp")
    folder = (match["folder"] or f"kernel-evidence-lab/{project_name}").removeprefix("~/").rstrip("/")
    return Box(host=match["host"], folder=folder or "/", ssh=tuple(shlex.split(ssh)))
