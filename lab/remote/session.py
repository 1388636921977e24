"""One run on a box, over connections that may break."""

import secrets
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

from lab.errors import LabError
from lab.remote.box import Box
from lab.remote.scripts import ENTER, Scripts

PATIENCE_SECONDS = 1800.0  # with a box that cannot be reached any more
LONGEST_WAIT_SECONDS = 60.0
ANSWER_SECONDS = 45.0  # for a script; a box may let one in and then hang
FULL_KIB = 64  # less is free where a disk is full
# ssh's own status, and those with which rsync tells that its connection broke.
LOST = {255, 10, 12, 30, 35}
# What no other try would mend.
FINAL = ("No space left", "Permission denied", "Host key verification failed", "Read-only file system")
T = TypeVar("T")


class HostError(LabError):
    """The box cannot be reached, or lacks something."""


class ConnectionLost(Exception):
    """A command was cut off; what it did on the box is unknown."""


@dataclass(frozen=True, slots=True)
class State:
    """How a run stands on the box: `status` is what it ended with, None where it has not ended."""

    running: bool
    status: int | None
    disk_full: bool  # asked where there is no status
    command: str


class Session:
    """Steps that are tried again after a lost connection, so each may happen twice."""

    def __init__(self, box: Box, scripts: Scripts, say: Callable[[str], None]) -> None:
        self._box, self._scripts, self._say = box, scripts, say
        self._printed_bytes = 0
        self.last_line = ""  # of the run's output that says anything

    def prepare(self, patience_seconds: float) -> None:
        """Makes the folders there. HostError where the box cannot be reached in that time, or lacks a tool."""
        lacking = self._retry(lambda: self._run(self._scripts.prepare), patience_seconds).splitlines()
        if lacking:
            raise HostError(
                f"{self._box.host} lacks {', '.join(lacking)}; needed there are util-linux, rsync and a folder on a "
                "disk with file locks (--host HOST:FOLDER)"
            )

    def state(self) -> State:
        answer = self._retry(lambda: self._run(self._scripts.state))
        first, _, command = answer.partition("\n")
        status = int(first.split()[1]) if first.startswith("ended") else None
        free = first.split()[4:5] if first.startswith("none") else []
        return State(
            running=first == "running", status=status, command=command.strip().removeprefix(ENTER),
            disk_full=any(kib.isdigit() and int(kib) < FULL_KIB for kib in free),
        )  # fmt: skip

    def push(self, root: Path, left_out: tuple[str, ...]) -> None:
        self._retry(lambda: self._call(self._box.push(root, left_out)))

    def start(self, command: str) -> None:
        self._printed_bytes, self.last_line = 0, ""
        script = self._scripts.start(command, attempt=secrets.token_hex(4))
        self._retry(lambda: self._run(script))

    def stop(self) -> None:
        self._retry(lambda: self._run(self._scripts.stop))

    def follow(self) -> int:
        """Says the run's output line by line until it has ended; its exit status. HostError where it just vanished."""
        self._retry(self._print_output)
        while (state := self.state()).running:  # its shell may write the status a moment later
            sleep(0.2)
        if state.disk_full:
            raise HostError(
                f"the disk of {self._box.host} is full: free some space for {self._scripts.folder}, then repeat the "
                "command"
            )
        if state.status is None:
            raise HostError(f"the run on {self._box.host} was killed, or the box restarted; the same command goes on")
        return state.status

    def holds(self, place: str) -> bool:
        return bool(self._retry(lambda: self._run(self._scripts.holds(place))).strip())

    def fetch(self, place: str, into: Path) -> None:
        into.mkdir(parents=True, exist_ok=True)
        self._retry(lambda: self._call(self._box.fetch(place, into)))

    def _print_output(self) -> None:
        with subprocess.Popen(
            self._box.shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                with suppress(BrokenPipeError), process.stdin as script:
                    script.write(self._scripts.follow(self._printed_bytes).encode())
                for line in process.stdout:
                    if line.endswith(b"\n"):  # the rest of a torn line comes with the next connection
                        self._printed_bytes += len(line)
                        text = line.decode(errors="replace").rstrip("\n")
                        self.last_line = text.strip() or self.last_line
                        self._say(text)
            except BaseException:
                process.kill()
                raise
        if process.returncode in LOST or process.returncode < 0:
            raise ConnectionLost("the connection broke")
        if process.returncode != 0:
            raise HostError(f"the run's output on {self._box.host} cannot be read (status {process.returncode})")

    def _run(self, script: str) -> str:
        return self._call(self._box.shell, script, ANSWER_SECONDS)

    def _call(self, command: list[str], script: str = "", seconds: float | None = None) -> str:
        """What it prints. ConnectionLost where the connection broke, HostError where the command failed."""
        try:
            done = subprocess.run(
                command, input=script, capture_output=True, text=True, errors="replace", check=False,
                start_new_session=True, timeout=seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise ConnectionLost(f"no answer for {seconds:.0f} s") from None
        except FileNotFoundError:
            raise HostError(f"{command[0]} is not installed here") from None
        lines = done.stderr.strip().splitlines() or ["no message"]
        refusal = next((line for line in lines if any(words in line for words in FINAL)), "")
        if done.returncode < 0 or (done.returncode in LOST and not refusal):
            raise ConnectionLost(lines[-1])
        if done.returncode != 0:
            reason = refusal or lines[-1]
            raise HostError(f"{self._box.host}: {command[0]} failed with status {done.returncode}: {reason}")
        return done.stdout

    def _retry(self, step: Callable[[], T], patience_seconds: float = PATIENCE_SECONDS) -> T:
        """Again and again while the connection breaks, with longer and longer waits."""
        wait_seconds, lost_since = 1.0, None
        while True:
            begun = monotonic()
            try:
                return step()
            except ConnectionLost as lost:
                if lost_since is None or monotonic() - begun > LONGEST_WAIT_SECONDS:  # it held for a while
                    wait_seconds, lost_since = 1.0, monotonic()
                if monotonic() - lost_since > patience_seconds:
                    raise HostError(
                        f"{self._box.host} cannot be reached: {lost}; try: ssh {self._box.host} true. A run that has "
                        "begun there goes on, and the same command follows it again"
                    ) from None
                self._say(f"{self._box.host}: {lost}; trying again in {wait_seconds:.0f} s")
                sleep(wait_seconds)
                wait_seconds = min(2 * wait_seconds, LONGEST_WAIT_SECONDS)
