"""A run on a box from here: copy the tree, start or join the run, follow it, bring it back."""

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from lab.errors import LabError, RunError
from lab.evidence import journal
from lab.evidence.record import RunFinish
from lab.remote.box import Box
from lab.remote.scripts import RUNS, Scripts
from lab.remote.session import HostError, Session

INTERRUPTED = 130
FIRST_SECONDS, START_SECONDS = 15.0, 300.0  # until a box must answer: one that is there, one that was just started
# Runs the command when it is told to, or when who should tell it is gone.
KEEPER = 'read -r told || echo "lab was killed; --down: $1" >&2; eval "$1" </dev/null'
TERMINATION = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, kw_only=True, slots=True)
class Journey:
    """What is measured where. `command` runs in the box's folder; `up` and `down` are shell commands run here."""

    box: Box
    root: Path
    runs: Path
    run_id: str
    command: str
    left_out: tuple[str, ...] = ()
    up: str = ""
    down: str = ""

    @property
    def scripts(self) -> Scripts:
        return Scripts(folder=self.box.folder, run_id=self.run_id)

    @property
    def incoming(self) -> Path:
        """What comes back lies here until it is whole."""
        return self.runs / f".incoming-{self.run_id}"

    @property
    def place(self) -> str:
        return f"{RUNS}/{self.run_id}"

    def steps(self) -> Iterator[tuple[str, str]]:
        """Each step's name and command line, as a dry run shows them."""
        box, scripts = self.box, self.scripts
        if self.up:
            yield "start the box", self.up
        yield "make its folders", self._there(scripts.prepare)
        yield "does the run go on there, or has it ended?", self._there(scripts.state)
        yield "copy the tree", shlex.join(box.push(self.root, self.left_out))
        yield "start the run", self._there(scripts.start(self.command, attempt="1"))
        yield "follow it", self._there(scripts.follow(0))
        yield "bring it back", shlex.join(box.fetch(self.place, self.incoming))
        if self.down:
            yield "stop the box", self.down

    def _there(self, script: str) -> str:
        return f"{shlex.join(self.box.shell)} <<'SCRIPT'\n{script}\nSCRIPT"


def measure_on_box(journey: Journey, say: Callable[[str], None]) -> None:
    """Measure there and bring the run to `runs`. `down` always runs. LabError if the run did not finish."""
    _refuse_finished(journey)
    with _rented(journey, say):
        session = Session(journey.box, journey.scripts, say)
        session.prepare(START_SECONDS if journey.up else FIRST_SECONDS)
        status = _measure(journey, session, say)
        if not session.holds(journey.place):
            raise HostError(_nothing_measured(journey.box.host, status, session.last_line))
        say(f"bringing the run back from {journey.box.host}")
        session.fetch(journey.place, journey.incoming)
        _accept(journey)
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if status != 0:
        raise HostError(f"the run on {journey.box.host} ended with status {status}; its last output is above")


def _refuse_finished(journey: Journey) -> None:
    records = journal.read(journey.runs / journey.run_id / journal.NAME).records
    if any(isinstance(record, RunFinish) for record in records):
        raise RunError(
            f"run {journey.run_id!r} is finished and will not be overwritten: choose another --run-id, "
            f"or look at it in {journey.runs / journey.run_id}"
        )


def _start_or_join(journey: Journey, session: Session, say: Callable[[str], None]) -> None:
    state = session.state()
    if state.running and state.command != journey.command:
        raise HostError(f"run {journey.run_id!r} goes on at {journey.box.host} with other options: {state.command}")
    if state.running:
        say(f"run {journey.run_id} goes on at {journey.box.host}: following it")
    elif state.status == 0 and state.command == journey.command:
        say(f"run {journey.run_id} has ended at {journey.box.host}")
    elif (journey.runs / journey.run_id / journal.NAME).exists() and not session.holds(journey.place):
        raise RunError(
            f"run {journey.run_id!r} was begun elsewhere: {journey.runs / journey.run_id} has a part of it, and "
            f"{journey.box.host} has none. A run stays on its machine: choose another --run-id, or end it by lab finish"
        )
    else:
        say(f"copying {journey.root} to {journey.box.host}:{journey.box.folder}")
        session.push(journey.root, journey.left_out)
        session.start(journey.command)


def _measure(journey: Journey, session: Session, say: Callable[[str], None]) -> int:
    """The exit status of the run there. Ctrl-C stops it as it would stop one here."""
    try:
        _start_or_join(journey, session, say)
        return session.follow()
    except KeyboardInterrupt:
        if not session.state().running:
            raise
        say("stopping the run on the box, then bringing it back; Ctrl-C again leaves it there")
        session.stop()
        session.follow()
        return INTERRUPTED


def _nothing_measured(host: str, status: int, last_line: str) -> str:
    said = f": {last_line}. All of its output is above" if last_line else ", and the box said nothing"
    advice = "; --host-python names an interpreter there that has the lab's packages" if _no_python(last_line) else ""
    return f"nothing was measured on {host} (status {status}){said}{advice}"


def _no_python(last_line: str) -> bool:
    """Whether the box has no Python that can run the lab, as its shell, its Python or `scripts/setup` says it."""
    return any(words in last_line for words in ("not found", "No such file", "No module named", "is needed; none is"))


def _accept(journey: Journey) -> None:
    """Puts what came back in its place. RunError where another run of that name lies there."""
    directory, incoming = journey.runs / journey.run_id, journey.incoming
    before, after = (_bytes_of(folder / journal.NAME) for folder in (directory, incoming))
    if not after.startswith(before):
        raise RunError(
            f"{directory} is another run than {journey.run_id!r} of {journey.box.host}, which lies in {incoming}: "
            "move one of them, or choose another --run-id"
        )
    shutil.copytree(incoming, directory, dirs_exist_ok=True)
    shutil.rmtree(incoming)


def _bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


@contextmanager
def _rented(journey: Journey, say: Callable[[str], None]) -> Iterator[None]:
    """The box is up inside. `down` always follows, also where this process is killed."""
    if not journey.down:
        _start_box(journey, say)
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in TERMINATION}
    # It waits for its stdin to end, which it does when this process does; in a session that Ctrl-C does not reach.
    keeper = subprocess.Popen(
        ["sh", "-c", KEEPER, "sh", journey.down], stdin=subprocess.PIPE, env=_environment(journey),
        start_new_session=True,
    )  # fmt: skip
    try:
        _start_box(journey, say)
        yield
    finally:
        for number in (*TERMINATION, signal.SIGINT):
            before.setdefault(number, signal.signal(number, signal.SIG_IGN))
        say(f"--down: {journey.down}")
        keeper.communicate(b"now\n")
        for number, handler in before.items():
            signal.signal(number, handler)
        if keeper.returncode != 0:
            raise LabError(
                f"--down {journey.down!r} failed with status {keeper.returncode}. "
                f"THE BOX {journey.box.host} MAY STILL RUN, and cost money"
            )


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _environment(journey: Journey) -> dict[str, str]:
    return {**os.environ, "LAB_HOST": journey.box.host}


def _start_box(journey: Journey, say: Callable[[str], None]) -> None:
    if not journey.up:
        return
    say(f"--up: {journey.up}")
    done = subprocess.run(
        journey.up, shell=True, env=_environment(journey), stdin=subprocess.DEVNULL, check=False
    )  # fmt: skip
    if done.returncode != 0:
        raise LabError(f"--up {journey.up!r} failed with status {done.returncode}")
