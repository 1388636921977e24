"""The simulation's table as it is kept and published: seed, repetitions and policy with it, so that all can run it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.definition.experiment import USUAL_THRESHOLD
from lab.errors import EvidenceError
from lab.evidence.codec import from_data
from lab.verdict.judge import POLICY_VERSION
from lab.verdict.scatter import PROCESSES
from lab.verdict.simulation import TRUTHS, SimulatedVerdicts, simulate

PATH = Path(__file__).with_name("simulation.json")
SEED, COMPARISONS, CHECKED = 2026, 12_000, 150
FALSE_SUPPORTED, FALSE_REFUTED = 0.01, 0.02  # at most, at the threshold's edge
DECIDED = {"fixed": 0.98, "torch.compile, fresh": 0.60}  # at least, at a true 1.2×; by the beginning of a name
CLEAR, VERY_CLEAR = 1.2, 5.5
DECIDED_VERY_CLEAR = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulationTable:
    """`comparisons`: of a row. `first`: the rows of the first `checked` comparisons alone, which a test runs again."""

    policy_version: int
    seed: int
    comparisons: int
    checked: int
    rows: tuple[SimulatedVerdicts, ...]
    first: tuple[SimulatedVerdicts, ...]


def simulated(comparisons: int = COMPARISONS, seed: int = SEED) -> SimulationTable:
    """Every process at every truth; minutes of one core."""
    places = [(process, truth) for process in PROCESSES for truth in TRUTHS]
    return SimulationTable(
        policy_version=POLICY_VERSION,
        seed=seed,
        comparisons=comparisons,
        checked=CHECKED,
        rows=tuple(simulate(process, truth, comparisons, seed) for process, truth in places),
        first=tuple(simulate(process, truth, CHECKED, seed) for process, truth in places),
    )


def save(table: SimulationTable, path: Path = PATH) -> None:
    path.write_text(json.dumps(asdict(table), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(path: Path = PATH) -> SimulationTable:
    """EvidenceError where it is missing or of another policy."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise EvidenceError(f"{path}: cannot be read ({problem}); `lab simulate --keep` writes it") from None
    table = from_data(SimulationTable, data, str(path))
    if table.policy_version != POLICY_VERSION:
        raise EvidenceError(
            f"{path}: is of policy {table.policy_version}, not {POLICY_VERSION}; `lab simulate --keep` writes it anew"
        )
    return table


def missed(rows: Sequence[SimulatedVerdicts]) -> tuple[str, ...]:
    """The goals that a table misses, as sentences; none where it meets them all."""
    return tuple(sentence for row in rows if (sentence := _missed(row)))


def _missed(row: SimulatedVerdicts) -> str:
    place = f"{row.process} at {row.truth:g}×"
    if row.truth not in (CLEAR, VERY_CLEAR):
        limit = FALSE_SUPPORTED if row.truth < USUAL_THRESHOLD else FALSE_REFUTED
        return f"{place}: {row.false} of {row.comparisons} are wrong" if row.false > limit * row.comparisons else ""
    wanted = (
        DECIDED_VERY_CLEAR
        if row.truth == VERY_CLEAR
        else max((s for n, s in DECIDED.items() if row.process.startswith(n)), default=0.0)
    )
    return (
        f"{place}: {row.supported} of {row.comparisons} are decided" if row.supported < wanted * row.comparisons else ""
    )
