"""What is about to be published, asked what the publications of others are asked; what breaks a rule is refused."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.definition.plan import PlannedCase, PlannedClaim
from lab.definition.publication import (
    Aggregate,
    Captured,
    Headline,
    Limits,
    Publication,
    Row,
    Selection,
    Statement,
    Table,
)
from lab.errors import EvidenceError
from lab.evidence.record import Cell, Counters, Machine
from lab.verdict.audit.finding import Words
from lab.verdict.audit.rules import BINDING, audit
from lab.verdict.cells import SCOPE, CellResult
from lab.verdict.datasheet import DENSE_FLOPS_PER_CLOCK, MATRIX_KINDS
from lab.verdict.judge import NOISY_RATIO, WEIGHED, Status
from lab.verdict.results import RunResult
from lab.verdict.roofline import peak_bytes_per_second
from lab.website import format
from lab.website.figure import Ledger
from lab.website.pages.labels import case_label
from lab.website.pages.views import Shown


def refuse(publications: Sequence[Publication]) -> None:
    """EvidenceError that names page, table, row and rule where what is about to be published breaks a binding one."""
    broken = [
        f"{publication.title}: {finding.table + ', ' if finding.table else ''}{finding.row} breaks {rule!r}: "
        f"{told(finding.words)}"
        for publication in publications
        for rule, findings in audit(publication).items()
        if rule in BINDING
        for finding in findings
    ]
    if broken:
        more = f" ({len(broken) - 1} more)" if len(broken) > 1 else ""
        raise EvidenceError(f"{broken[0]}{more}")


def told(words: Words) -> str:
    return "".join(word if isinstance(word, str) else format.amount(word.value, word.unit) for word in words)


def as_publication(shown: Shown, data: Mapping[str, Any]) -> Publication:
    """An experiment's page as a publication, out of the data that its figures point at."""
    return Publication(
        slug=shown.result.plan.name, title=shown.result.plan.title, source=data["experiment"], about="",
        tables=tuple(_tables(shown, data)), statements=tuple(_statements(shown, data)),
    )  # fmt: skip


def _tables(shown: Shown, data: Mapping[str, Any]) -> Iterator[Table]:
    """One a scope, and one of the ceilings where the run measured them. A CPU's limits are not known."""
    if shown.run is None or shown.on_cpu:
        return
    limits = _limits(shown.run.machine)
    for scope in shown.result.plan.scopes:
        yield Table(
            title=scope, source=data["evidence"]["digest"], limits=limits, scope=scope, cold=scope == SCOPE,
            rows=tuple(_rows(shown, data, scope)),
            launch_floor_seconds=data["evidence"]["launch_floor_seconds"] if scope == SCOPE else 0.0,
            clock_step_seconds=shown.result.step_seconds.get(scope, 0.0),
        )  # fmt: skip
    if rates := Ledger(data).value("ceilings", "matrix"):
        yield Table(
            title="ceilings", source=data["evidence"]["digest"], limits=limits, scope="ceilings",
            rows=tuple(_rate(kind, rate) for kind, rate in rates.items()),
        )  # fmt: skip


def _limits(machine: Machine) -> Limits:
    """The hard limits: at the largest clocks of the very GPU, which a datasheet may not count on.

    What the driver does not tell, limits nothing.
    """
    per_clock = DENSE_FLOPS_PER_CLOCK.get(machine.compute_capability, {})
    cycles = machine.multiprocessors * machine.sm_clock_hertz
    return Limits(
        gpu=machine.gpu, bytes_per_second=peak_bytes_per_second(machine) or math.inf,
        l2_bytes=machine.l2_bytes or math.inf,
        flops_per_second={kind: cycles * flops for kind, flops in per_clock.items()},
        source="clocks and units as the GPU's driver tells them",
    )  # fmt: skip


def _rows(shown: Shown, data: Mapping[str, Any], scope: str) -> Iterator[Row]:
    """The rows of a scope that have a time and are not shown as rejected."""
    ledger = Ledger(data)
    for case, profile in shown.result.plan.cells():
        cell = shown.result.cells[case.name, profile.name]
        if cell.outcome == "measured" and scope in cell.latencies and not cell.impossible.get(scope):
            yield _row(case, cell, profile.title, ledger, scope)


def _row(case: PlannedCase, cell: CellResult, title: str, ledger: Ledger, scope: str) -> Row:
    path, hardware = ("cells", case.name, cell.profile), ("limits", case.name, "profiles", cell.profile)
    matrix = MATRIX_KINDS.get(case.dtype, "") if case.op.startswith("matmul") else ""
    headline = scope == SCOPE
    return Row(
        label=f"{case_label(case)}, {title}",
        operator=case.op,
        shape="×".join(map(str, case.shape)),
        dtype=case.dtype,
        profile=cell.profile,
        work=case.work,
        matrix=matrix,
        seconds=ledger.value(*path, "scopes", scope, "p50_seconds"),
        bytes_per_second=ledger.value(*path, "bytes_per_second") if headline else None,
        flops_per_second=ledger.value(*hardware, "flops_per_second") if headline and matrix else None,
        noise_ratio=ledger.value(*path, "scopes", scope, "noise_ratio"),
        launches=len(cell.counters.kernels) or None if cell.counters else None,
        counters=_captured(cell.counters) if headline and cell.counters else None,
        launch_bound=cell.launch_bound,
        working_set_bytes=ledger.value(*hardware, scope, "cache_resident_bytes"),
    )


def _rate(kind: str, rate: Mapping[str, Any]) -> Row:
    """A measured matrix rate, and the share of the datasheet's that is printed beside it."""
    return Row(
        label=f"matrix rate of {kind}", operator="matmul", shape="", dtype=kind, profile=rate["profile"], matrix=kind,
        flops_per_second=rate["flops_per_second"], matrix_share=rate["peak_share"],
    )  # fmt: skip


def _captured(counters: Counters) -> Captured | None:
    """The kernels of one call together, where each was measured; shares only where there is one."""
    kernels = [
        (kernel.duration_seconds, kernel.dram_read_bytes, kernel.dram_written_bytes) for kernel in counters.kernels
    ]
    if not kernels or any(value is None for kernel in kernels for value in kernel):
        return None
    seconds, read, written = (sum(value or 0.0 for value in values) for values in zip(*kernels, strict=True))
    alone = counters.kernels[0] if len(kernels) == 1 else None
    return Captured(
        seconds=seconds, read_bytes=read, written_bytes=written,
        registers_per_thread=alone.registers_per_thread if alone else None,
        dram_share=_share(alone.dram_percent) if alone else None,
        occupancy_share=_share(alone.occupancy_percent) if alone else None,
    )  # fmt: skip


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _statements(shown: Shown, data: Mapping[str, Any]) -> Iterator[Statement]:
    source = data["experiment"]
    included = tuple(name for name, case in data["cases"].items() if case["included"])
    for found in shown.result.claims:
        name = found.claim.name
        claim = data["claims"][name]
        ratios = tuple(v["ratio"] for v in claim["cases"].values() if v["status"] in WEIGHED and "ratio" in v)
        if ratios:
            yield Aggregate(label=name, source=source, ratios=ratios, said=claim["geometric_mean"])
        for case, verdict in claim["cases"].items():
            if name in shown.result.plan.headlines and verdict["status"] == Status.SUPPORTED:
                yield Headline(
                    label=f"{name} at {case}", source=source, case=case, listed=included,
                    noise_ratio=_noise(found.claim, case, Ledger(data)), noise_limit=NOISY_RATIO,
                )  # fmt: skip
    if shown.run:
        yield Selection(
            label="what was measured", source=source, measured=tuple(_measured(shown.result.plan.name, shown.run)),
            shown=tuple(f"{case} {profile}" for case, cells in data["cells"].items() for profile in cells),
        )  # fmt: skip


def _noise(claim: PlannedClaim, case: str, ledger: Ledger) -> float | None:
    """The larger noise ratio of a claim's two sides at a case."""
    sides = (ledger.value("cells", case, name, "scopes", claim.scope) for name in (claim.subject, claim.baseline))
    return max((side["noise_ratio"] for side in sides if side and side["noise_ratio"]), default=None)


def _measured(experiment: str, run: RunResult) -> Iterator[str]:
    """Every cell that any sweep of the run measured for this experiment."""
    cells = [record for record in run.records if isinstance(record, Cell) and record.experiment == experiment]
    yield from dict.fromkeys(f"{cell.case} {cell.profile}" for cell in cells if cell.outcome == "measured")
