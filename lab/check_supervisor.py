"""`lab check` from outside: profiles are checked in another process, which is ended where one takes too long.

A kernel that never returns, or takes its process down, costs only its own result: a new process checks the rest.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from lab.errors import LabError
from lab.evidence.source import OWN_MODULE, child_environment
from lab.process.channel import Garbled, Reader
from lab.process.child import SIGNALS, TERM_SECONDS
from lab.process.leftovers import KILLED_SECONDS, MARK, adopt_orphans, kill_leftovers, new_mark
from lab.process.parent_death import mark_parent
from lab.project import project

LOADING_SECONDS = 300.0  # for PyTorch, Triton and the experiments
MOST_PRINTED_BYTES = 16 << 20  # by one profile: a flood must not fill the disk
SHOWN_OF_FLOOD_BYTES = 1 << 10
FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)

Cell = tuple[str, str, str]  # experiment, case, profile


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """Whether a profile is "right", "wrong", "failed" or "skipped", why, and what it printed."""

    outcome: str
    message: str
    printed: str = ""


def check_apart(
    names: Sequence[str], seconds: float, begin: Callable[[Cell], None], show: Callable[[str], None]
) -> Iterator[Checked]:
    """Check the named experiments. `begin` is told of each profile before it is called, `show` what is printed before
    the first. LabError where the experiments cannot be loaded."""
    done: list[Cell] = []
    while True:
        with CheckingProcess(names, done, seconds) as process:
            process.load((lambda _: None) if done else show)
            cell: Cell | None = None
            for kind, content in process.messages(seconds, f", or allow more: {project().lab} check --seconds S"):
                if kind == "done":
                    return
                if kind == "begin":
                    cell = (content[0], content[1], content[2])
                    begin(cell)
                    continue
                if cell is None or cell in done:
                    raise LabError(f"after {' '.join(cell or ('the experiments were loaded',))}: the check {content}")
                outcome, message = content if kind == "result" else ("failed", f"it {content}")
                yield Checked(outcome=outcome, message=message, printed=process.printed())
                done.append(cell)


class CheckingProcess:
    """lab.check_worker in a process that leads a group of its own. Use as a context manager: it ends with all that it
    started.

    Measuring processes are held by lab.process.child, which needs os.waitid; Python 3.11 has none on macOS.
    """

    def __init__(self, names: Sequence[str], done: Sequence[Cell], seconds: float) -> None:
        adopt_orphans()
        self._mark, self._shown, self._ended = new_mark(), 0, False
        self._told: int | None = None  # bytes printed before its last message; None once it has ended
        with ExitStack() as opened:
            self._output = opened.enter_context(TemporaryFile())
            self._stack = opened.enter_context(TemporaryFile())
            reader, writer = os.pipe()
            opened.callback(os.close, reader)
            self._reader = Reader(reader)
            self._start(writer)
            self._opened = opened.pop_all()
        self._order({"names": names, "done": done, "seconds": seconds, "loading_seconds": LOADING_SECONDS})

    def _start(self, writer: int) -> None:
        handed = [writer, self._stack.fileno()]
        try:
            self._process = subprocess.Popen(
                [sys.executable, *OWN_MODULE, "lab.check_worker", *map(str, handed)],
                stdin=subprocess.PIPE, stdout=self._output, stderr=subprocess.STDOUT, pass_fds=handed,
                start_new_session=True,
                env={**child_environment(), **mark_parent(), MARK: self._mark, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        finally:
            os.close(writer)

    def _order(self, order: Any) -> None:
        """And close its stdin, so that nothing waits for a keyboard."""
        assert self._process.stdin
        with suppress(BrokenPipeError), self._process.stdin as orders:
            orders.write(json.dumps(order).encode())

    def __enter__(self) -> "CheckingProcess":
        return self

    def __exit__(self, *_: object) -> None:
        with self._opened:
            self._end()

    def load(self, show: Callable[[str], None]) -> None:
        """Wait until it has loaded the experiments. LabError where they are refused, or that does not end."""
        kind, content = next(self.messages(LOADING_SECONDS))
        show(self.printed())
        if kind == "refused":
            raise LabError(content)
        if kind == "stopped":
            raise LabError(f"the experiments cannot be loaded: one of their files {content}")

    def messages(self, silence_seconds: float, otherwise: str = "") -> Iterator[tuple[str, Any]]:
        """What it sends, and at the end why it was "stopped", in words that follow a subject."""
        try:
            for kind, content, printed_bytes in self._reader.frames(silence_seconds, ended=self._has_ended):
                self._told = printed_bytes
                yield kind, content
            why = self._ending()
        except TimeoutError:
            self._end()
            why = f"took longer than {silence_seconds:g} s and was stopped{self._place()}; mend that{otherwise}"
        except Garbled as problem:
            why = f"disturbed the report of its check, which {problem}"
        self._end()
        self._told = None
        yield "stopped", why

    def printed(self) -> str:
        """What it had printed by its last message since this was asked before; of a flood the beginning."""
        told = os.fstat(self._output.fileno()).st_size if self._told is None else self._told
        most = SHOWN_OF_FLOOD_BYTES if told > self._shown + MOST_PRINTED_BYTES else MOST_PRINTED_BYTES
        text = os.pread(self._output.fileno(), min(most, max(0, told - self._shown)), self._shown)
        self._shown = max(self._shown, told)  # what the next profile may have printed by now is its own
        return text.decode(errors="replace")

    def _has_ended(self) -> bool:
        return self._process.poll() is not None or self._floods()

    def _floods(self) -> bool:
        return os.fstat(self._output.fileno()).st_size > self._shown + MOST_PRINTED_BYTES

    def _ending(self) -> str:
        if self._floods():
            return f"printed more than {MOST_PRINTED_BYTES >> 20} MiB and was stopped"
        try:
            code = self._process.wait(TERM_SECONDS)
        except subprocess.TimeoutExpired:
            return "closed the report of its check and went on"
        if code < 0:
            return f"had its process killed by {SIGNALS.get(-code, f'signal {-code}')}"
        return f"ended its process with code {code}"

    def _place(self) -> str:
        """' at mine.py, line 5, in endless': the innermost of the project's lines that were running."""
        dump = os.pread(self._stack.fileno(), 1 << 16, 0).decode(errors="replace")
        for file, line, function in FRAME.findall(dump):
            path = Path(file)
            if path.is_relative_to(project().root) and "site-packages" not in path.parts:
                return f" at {path.relative_to(project().root)}, line {line}, in {function}"
        return ""

    def _end(self) -> None:
        """Terminate the process group, then kill it, and what it started outside of it."""
        if self._ended:
            return
        self._ended = True
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(TERM_SECONDS)
        self._signal(signal.SIGKILL)
        try:
            self._process.wait(KILLED_SECONDS)
        except subprocess.TimeoutExpired:
            stays = f"process {self._process.pid} does not end although it was killed: the GPU's driver holds it"
            raise LabError(stays) from None
        kill_leftovers(self._mark, self._process.pid)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # it is gone; macOS says so of a group that has ended
            os.killpg(self._process.pid, number)
