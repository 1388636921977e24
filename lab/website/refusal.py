"""What is about to be published, asked what the publications of others are asked; what breaks a rule is refused."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.definition.plan import PlannedCase, PlannedClaim, PlannedProfile
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
from lab.evidence.codec import from_data
from lab.evidence.record import Machine
from lab.verdict.audit.finding import Finding, Words
from lab.verdict.audit.rules import BINDING
from lab.verdict.cells import SCOPE
from lab.verdict.datasheet import DENSE_FLOPS_PER_CLOCK, MATRIX_KINDS
from lab.verdict.judge import NOISY, NOISY_RATIO, WITH_USABLE_RATIO, Status
from lab.verdict.roofline import peak_bytes_per_second
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import DataView
from lab.website.pages.labels import case_label

COUNTED = ("duration_seconds", "dram_read_bytes", "dram_written_bytes")  # of a kernel


def refuse_findings(publication: Publication, findings_by_rule: Mapping[str, Sequence[Finding]]) -> None:
    """EvidenceError that names page, table, row and rule where what the guard found breaks a binding one."""
    broken = [
        f"{publication.title}: {finding.table + ', ' if finding.table else ''}{finding.row} breaks {rule!r}: "
        f"{words_text(finding.words)}"
        for rule, findings in findings_by_rule.items()
        if rule in BINDING
        for finding in findings
    ]
    if broken:
        more = f" ({len(broken) - 1} more)" if len(broken) > 1 else ""
        raise EvidenceError(f"{broken[0]}{more}")


def words_text(words: Words) -> str:
    return "".join(word if isinstance(word, str) else format.amount(word.value, word.unit) for word in words)


def as_publication(shown: Judged) -> Publication:
    """An experiment's page as a publication, out of the data that its figures point at."""
    data = shown.data
    return Publication(
        slug=shown.plan.name, title=shown.plan.title, source=data["experiment"], about="",
        tables=tuple(_tables(shown, data)), statements=tuple(_statements(shown, data)),
    )  # fmt: skip


def _tables(shown: Judged, data: Mapping[str, Any]) -> Iterator[Table]:
    """One a scope, and one of the ceilings where the run measured them. A CPU's limits are not known."""
    if not shown.evidence or shown.on_cpu:
        return
    limits = _limits(from_data(Machine, shown.machine))
    for scope in shown.plan.scopes:
        yield Table(
            title=scope, source=data["evidence"]["digest"], limits=limits, scope=scope, cold=scope == SCOPE,
            rows=tuple(_rows(shown, data, scope)),
            launch_floor_seconds=data["evidence"]["launch_floor_seconds"] if scope == SCOPE else 0.0,
            clock_step_seconds=data["clock_step_seconds"].get(scope, 0.0),
        )  # fmt: skip
    if rates := DataView(data).value("ceilings", "matrix"):
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


def _rows(shown: Judged, data: Mapping[str, Any], scope: str) -> Iterator[Row]:
    """The rows of a scope that have a time and are not shown as rejected."""
    view, labels = DataView(data), {case.name: case_label(case) for case in shown.plan.cases}
    for case, profile in shown.plan.cells():
        cell = view.value("cells", case.name, profile.name)
        if cell and cell["outcome"] == "measured" and scope in cell["scopes"] and not cell["impossible"].get(scope):
            yield _row(case, profile, cell, view, scope, f"{labels[case.name]}, {profile.title}")


def _row(
    case: PlannedCase, profile: PlannedProfile, cell: Mapping[str, Any], view: DataView, scope: str, label: str
) -> Row:  # fmt: skip
    hardware = ("limits", case.name, "profiles", profile.name)
    counters, times = cell.get("counters"), cell["scopes"][scope]
    matrix = MATRIX_KINDS.get(case.dtype, "") if case.op.startswith("matmul") else ""
    headline = scope == SCOPE
    return Row(
        label=label,
        operator=case.op,
        shape="×".join(map(str, case.shape)),
        dtype=case.dtype,
        profile=profile.name,
        work=case.work,
        matrix=matrix,
        seconds=times.get("p50_seconds"),
        bytes_per_second=cell.get("bytes_per_second") if headline else None,
        flops_per_second=view.value(*hardware, "flops_per_second") if headline and matrix else None,
        noise_ratio=times.get("noise_ratio"),
        launches=len(counters["kernels"]) or None if counters else None,
        counters=_captured(counters["kernels"]) if headline and counters else None,
        launch_bound=cell["launch_bound"],
        working_set_bytes=view.value(*hardware, scope, "cache_resident_bytes"),
    )


def _rate(kind: str, rate: Mapping[str, Any]) -> Row:
    """A measured matrix rate, and the share of the datasheet's that is printed beside it."""
    return Row(
        label=f"matrix rate of {kind}", operator="matmul", shape="", dtype=kind, profile=rate["profile"], matrix=kind,
        flops_per_second=rate["flops_per_second"], matrix_share=rate["peak_share"],
    )  # fmt: skip


def _captured(kernels: Sequence[Mapping[str, Any]]) -> Captured | None:
    """The kernels of one call together, where each was measured; shares only where there is one."""
    counted = [[kernel[name] for name in COUNTED] for kernel in kernels]
    if not kernels or any(value is None for kernel in counted for value in kernel):
        return None
    seconds, read, written = (sum(values) for values in zip(*counted, strict=True))
    alone = kernels[0] if len(kernels) == 1 else {}
    return Captured(
        seconds=seconds, read_bytes=read, written_bytes=written,
        registers_per_thread=alone.get("registers_per_thread"),
        dram_share=_share(alone.get("dram_percent")),
        occupancy_share=_share(alone.get("occupancy_percent")),
    )  # fmt: skip


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _statements(shown: Judged, data: Mapping[str, Any]) -> Iterator[Statement]:
    source = data["experiment"]
    included = tuple(name for name, case in data["cases"].items() if case["included"])
    for planned in shown.plan.claims:
        name = planned.name
        claim = data["claims"][name]
        ratios = tuple(v["ratio"] for v in claim["cases"].values() if v["status"] in WITH_USABLE_RATIO and "ratio" in v)
        if ratios:
            yield Aggregate(label=name, source=source, ratios=ratios, said=claim["geometric_mean"])
        for case, verdict in claim["cases"].items():
            if name in shown.plan.headlines and verdict["status"] == Status.SUPPORTED:
                told = NOISY in verdict["mark"].split(", ")  # the interval allows for it, and the page says so
                yield Headline(
                    label=f"{name} at {case}", source=source, case=case, listed=included,
                    noise_ratio=_noise(planned, case, DataView(data)), noise_limit=None if told else NOISY_RATIO,
                )  # fmt: skip
    if shown.evidence:
        yield Selection(
            label="what was measured", source=source,
            measured=tuple(f"{case} {profile}" for case, profiles in data["measured"].items() for profile in profiles),
            shown=tuple(f"{case} {profile}" for case, cells in data["cells"].items() for profile in cells),
        )  # fmt: skip


def _noise(claim: PlannedClaim, case: str, view: DataView) -> float | None:
    """The larger noise ratio of a claim's two sides at a case."""
    sides = (view.value("cells", case, name, "scopes", claim.scope) for name in (claim.subject, claim.baseline))
    return max((side["noise_ratio"] for side in sides if side and side["noise_ratio"]), default=None)
