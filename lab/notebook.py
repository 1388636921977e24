"""Runs as a notebook wants them: `lab.load(run)`, pandas frames with units in the names, and a picture.

run = lab.load("first")
run.claims          # one row for each claim at each case
run.plot()          # speed-ups with their intervals
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.commands.runs import directory_of
from lab.definition.catalogue import PLACES
from lab.definition.experiment import Experiment
from lab.definition.plan import Protocol
from lab.definition.short import Draft
from lab.errors import MissingPackage
from lab.evidence.source import HANDED_OVER as VARIABLE
from lab.project import project
from lab.tables import Row, cell_rows, claim_rows, sample_rows
from lab.verdict.judge_run import load_run
from lab.verdict.required import lacking_verdicts
from lab.verdict.results import RunResult

if TYPE_CHECKING:
    import pandas


class Run:
    """A judged run. Each frame is made at its first use; the journal is never changed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.result: RunResult = load_run(directory)

    @property
    def run_id(self) -> str:
        return self.result.plan.run_id

    @cached_property
    def cells(self) -> pandas.DataFrame:
        """One row for each case and profile: its median time, noise, bandwidth and error."""
        return _frame(cell_rows(self.result))

    @property
    def df(self) -> pandas.DataFrame:
        """The cells, by the name that a notebook tries first."""
        return self.cells

    @cached_property
    def claims(self) -> pandas.DataFrame:
        """One row for each claim at each case: its ratio with the interval, and the verdict."""
        return _frame(claim_rows(self.result))

    @cached_property
    def samples(self) -> pandas.DataFrame:
        """One row for each sample that counts: sweep, round, and the seconds of one call."""
        return _frame(sample_rows(self.result))

    def plot(self) -> Any:
        """A plotly figure: speed-ups of claims at cases, with their 95 % intervals, beside what each claims."""
        _package("plotly")
        from lab.interval_figure import intervals

        return intervals(self.run_id, claim_rows(self.result))

    def require(self, verdict: str) -> None:
        """AssertionError, with what each is instead, unless every headline claim has the verdict: one of REQUIRED."""
        if lacking := list(lacking_verdicts(self.result, verdict)):
            raise AssertionError("\n".join(lacking))

    def __repr__(self) -> str:
        experiments = ", ".join(each.plan.name for each in self.result.experiments)
        return f"Run({self.run_id!r}: {experiments} on {self._machine})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(row['claim'])}</td><td>{escape(row['case'])}</td><td>{_shown(row)}</td>"
            f"<td><strong>{escape(row['status'])}</strong></td></tr>"
            for row in claim_rows(self.result)
        )
        head = "<tr><th>claim</th><th>case</th><th>ratio [95 % interval]</th><th>verdict</th></tr>"
        about = f"<p><strong>{escape(self.run_id)}</strong> on {escape(self._machine)}</p>"
        return f"{about}<table><thead>{head}</thead><tbody>{rows}</tbody></table>"

    @property
    def _machine(self) -> str:
        machine = self.result.machine
        return machine.gpu or f"the CPU ({machine.cpu})"


def load(run: str | Path) -> Run:
    """A run by its id, or by the path of its directory. RunError, with those that there are, where it is neither."""
    return Run(directory_of(str(run)))


def measure(
    asked: Draft | Experiment, *, sweeps: int | None = None, device: str = "auto", run_id: str = "",
    runs: Path | None = None, say: Callable[[str], None] = print,
) -> Run:  # fmt: skip
    """Measure an experiment from here, in fresh processes, and load what came out.

    An experiment that is defined in a notebook is passed to these processes. It can be judged and compared, but not
    published, because no commit has its source. Triton kernels must be defined in a file, as Triton requires.
    """
    from lab.definition.mistakes import refuse_mistakes
    from lab.definition.planning import make_plan
    from lab.supervisor.run import run as supervise
    from lab.verdict.judge import POLICY_VERSION
    from lab.worker.device import choose_device

    experiment = asked.definition() if isinstance(asked, Draft) else asked
    refuse_mistakes([experiment], lambda name: str(asked.place) if isinstance(asked, Draft) else "the experiment")
    chosen = choose_device(device)
    plan = make_plan(
        run_id or f"{experiment.name}-{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}", [experiment],
        device=chosen, profiling=False, sweeps=sweeps if sweeps is not None else Protocol().sweeps,
        include=frozenset(), policy_version=POLICY_VERSION,
    )  # fmt: skip
    directory = (runs or project().runs) / plan.run_id
    with _handed_over(experiment):
        supervise(plan, directory, say)
    return Run(directory)


@contextmanager
def _handed_over(experiment: Experiment) -> Iterator[None]:
    """The processes that measure find the experiment in a file; lab.definition.catalogue reads it."""
    pickler = _package("cloudpickle")
    with tempfile.TemporaryDirectory(prefix="lab-handed-over-") as folder:
        path = Path(folder) / "experiment.pickle"
        path.write_bytes(pickler.dumps(experiment))  # by whose digest runs are told to be repeats: so PLACES is apart
        path.with_name(PLACES).write_text(json.dumps([os.path.abspath(place) for place in sys.path]))
        os.environ[VARIABLE] = str(path)
        try:
            yield
        finally:
            del os.environ[VARIABLE]


def _frame(rows: Iterator[Row]) -> pandas.DataFrame:
    return _package("pandas").DataFrame(list(rows))


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingPackage(f"{name.partition('.')[0]} is not installed here, and this needs it") from None


def _shown(row: Mapping[str, Any]) -> str:
    if row["ratio"] is None:
        return "–"
    if row["ratio_low"] is None:
        return f"{row['ratio']:.3g}×"
    return f"{row['ratio']:.3g}× [{row['ratio_low']:.3g}, {row['ratio_high']:.3g}]"
