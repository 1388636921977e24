"""What the website knows of an experiment: its plan, and the data behind every page about it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from lab.definition.catalogue import load_audits, load_breakdowns, load_tokens
from lab.definition.plan import PlannedExperiment, PlannedProfile
from lab.definition.publication import Publication
from lab.evidence.codec import digest, to_data
from lab.verdict.judge import Status
from lab.verdict.judge_run import unmeasured
from lab.verdict.ranking import Place
from lab.verdict.results import RunResult
from lab.website.addresses import measured_on
from lab.website.data.published import experiment_data
from lab.website.wording.references import REFERENCE

# What is published of an experiment in one run at its address for ever: its verdicts, and the times behind them.
LEFT_OUT = ("against", "places", "contest", "explained", "limits", "clocks", "gpu")
LEFT_OUT_OF_CELLS = (
    "counters", "compiled", "edges", "draws", "traffic", "bytes_per_second", "enqueue_seconds", "prepare_seconds",
    "peak_memory_bytes", "graph_memory_bytes", "correctness_checks", "worst_absolute_error", "worst_tolerance_share",
    "standard_tolerance_share", "launch_bound", "host_bound", "sustained",
)  # fmt: skip


def verdict_data(data: Mapping[str, Any]) -> dict[str, Any]:
    cells = {
        case: {profile: _without(cell, LEFT_OUT_OF_CELLS) for profile, cell in cells.items()}
        for case, cells in data["cells"].items()
    }
    return _without(data, LEFT_OUT) | {"cells": cells}


def _without(data: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in names}


AT_HAND = 128  # experiments that stay in memory, a third of a megabyte each


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """An experiment as one run's evidence has it, or as nobody has measured it yet."""

    plan: PlannedExperiment
    data: Mapping[str, Any]  # of lab.website.data.published.ExperimentData
    text: str = field(default_factory=str)  # the same as JSON, where that was at hand

    @cached_property
    def name(self) -> str:
        return self.plan.name

    @property
    def loaded(self) -> "Judged":
        """The same with plan and data in memory."""
        return self

    @cached_property
    def key(self) -> str:
        """Of two with one key, everything is the same."""
        return digest([to_data(self.plan), self.as_json()])

    @property
    def evidence(self) -> Mapping[str, Any]:
        """Which run, when and how it measured; empty where there is none."""
        return self.data["evidence"] or {}

    @cached_property
    def digest(self) -> str:
        """Of its run; empty where there is none."""
        return str(self.evidence.get("digest", ""))

    @property
    def machine(self) -> Mapping[str, Any]:
        """The fields of lab.evidence.record.Machine; empty where there is no run."""
        return self.data["machine"] or {}

    @property
    def machine_name(self) -> str:
        """Empty where there is no run."""
        if not self.machine:
            return ""
        return measured_on(*(self.machine[name] for name in ("device", "gpu", "cpu", "cpu_count")))

    @property
    def on_cpu(self) -> bool:
        return self.machine.get("device") == "cpu"

    @property
    def measured_utc(self) -> str:
        """When its run ended, or began where it did not end; empty where there is none."""
        return str(self.evidence.get("finished_utc") or self.evidence.get("started_utc", ""))

    @cached_property
    def finished_utc(self) -> str:
        """Empty where its run did not end, or there is none."""
        return str(self.evidence.get("finished_utc", ""))

    @cached_property
    def fullness(self) -> tuple[Any, ...]:
        """The larger, the fuller its evidence: a GPU's, speaking to more claims, at more cases, of more sweeps, newer.

        Only whether there is evidence counts and never what it says, nor counters that no claim needs: else an older
        run that was profiled would stand before a newer one that refutes it.
        """
        spoken = [
            sum(verdict["status"] != Status.NO_EVIDENCE for verdict in claim["cases"].values())
            for claim in self.data["claims"].values()
        ]
        claims = sum(cases > 0 for cases in spoken)
        sweeps, run_id = self.evidence.get("sweeps", 0), self.evidence.get("run_id", "")
        return not self.on_cpu, claims, sum(spoken), sweeps, self.finished_utc, run_id

    @cached_property
    def cites(self) -> bool:
        """Whether what was registered of it refers to results, which are looked up when its page is made."""
        return any(REFERENCE.search(text) for text in (self.plan.importance, *self.plan.does_not_show))

    def as_json(self) -> str:
        """The published text of the data."""
        return self.text or json_text(self.data)

    def cell(self, case: str, profile: str) -> Mapping[str, Any]:
        """As lab.website.data.published_cells.CellData."""
        cell: Mapping[str, Any] = self.data["cells"][case][profile]
        return cell

    def measured_profiles(self, case: str) -> list[PlannedProfile]:
        return [p for p in self.plan.profiles if self.data["cells"][case][p.name]["outcome"] == "measured"]

    def places(self, case: str, scope: str) -> dict[str, Place]:
        """The place of each profile timed in a scope, fastest first; empty where none was."""
        return {
            each["profile"]: Place(**{name: each[name] for name in ("rank", "times_fastest", "level", "proven")})
            for each in self.data["places"].get(case, {}).get(scope, ())
        }


@lru_cache(maxsize=AT_HAND)
def _loaded(stored: "LazyJudged") -> Judged:
    read: Callable[[], Judged] = vars(stored)["_read"]
    return read()


class LazyJudged(Judged):
    """An experiment on disk, read when its plan or data are asked for: thousands do not fit into memory.

    What lists and counts ask of every experiment is `known` without reading it.
    """

    def __init__(self, read: Callable[[], Judged], **known: Any) -> None:
        vars(self).update(known, _read=read)

    def __getattr__(self, name: str) -> Any:
        if name in ("plan", "data", "text"):
            return getattr(_loaded(self), name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    @property
    def loaded(self) -> Judged:
        return _loaded(self)


def json_text(data: Mapping[str, Any]) -> str:
    """Data as they are published: to be read by people too, a line for each part of a part, in the order in which they
    were made."""
    return f"{{\n{_lines(data, _part)}\n}}\n"


def _part(value: Any) -> str:
    return f"{{\n{_lines(value, _packed)}\n}}" if isinstance(value, Mapping) and value else _packed(value)


def _lines(data: Mapping[str, Any], text: Callable[[Any], str]) -> str:
    return ",\n".join(f"{_packed(name)}:{text(value)}" for name, value in data.items())


_packed = json.JSONEncoder(separators=(",", ":")).encode


def judged_run(run: RunResult, digest: str = "", commit: str = "") -> tuple[Judged, ...]:
    """Every experiment of a run, in its plan's order."""
    publications, breakdowns, tokens = load_audits(), load_breakdowns(), load_tokens()
    return tuple(
        Judged(
            plan=result.plan,
            data=experiment_data(result, run, digest, commit, publications, breakdowns.get(result.plan.name), tokens),
        )
        for result in run.experiments
    )


def not_measured(plan: PlannedExperiment, publications: Sequence[Publication] = ()) -> Judged:
    """An experiment that no evidence speaks of yet."""
    return Judged(plan=plan, data=experiment_data(unmeasured(plan), None, publications=publications))
