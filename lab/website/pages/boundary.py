"""Where the evidence ends: what it holds for, what it does not show, what was left out and why."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab.definition.plan import PlannedCase
from lab.verdict.statistics import per_cent
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.pages.labels import TITLES, case_label, listed, shape_label
from lab.website.pages.views import Boundary

RUN_TO_RUN = (
    "How much another run, machine or compilation would vary: an interval speaks for the processes of this run."
)

TRAFFIC_PASS = (
    "Verdicts on traffic: DRAM bytes of one call, counted by Nsight Compute in one pass of its own, at the clocks of "
    "that pass, with the caches emptied before each kernel."
)


def boundary(shown: Judged, ledger: Ledger) -> Boundary:
    plan, machine = shown.plan, shown.machine
    authored: tuple[Sentence, ...] = tuple((limit,) for limit in plan.does_not_show)
    if not shown.evidence:
        return Boundary(holds_for=(), does_not_show=authored, not_measured=(), excluded=())
    versions = f"torch {machine['torch']}, triton {machine['triton']}"
    driver = f", driver {machine['driver']}, CUDA {machine['cuda']}" if machine["device"] == "cuda" else ""
    holds: list[Sentence] = [
        (f"{shown.machine_name}: this one machine.",),
        (f"{versions}{driver}, Python {machine['python']}.",),
        (f"{_cases(plan.included_cases)}.",),
        (_scope_sentence(shown),),
    ]
    verdicts = (verdict for claim in shown.data["claims"].values() for verdict in claim["cases"].values())
    if any("subject_bytes" in verdict for verdict in verdicts):
        holds.append((TRAFFIC_PASS,))
    not_measured: list[Sentence] = [
        (f"{case_label(case)}: not part of this run (--include-{case.only_with}).",)
        for case in plan.cases
        if not case.included
    ]
    not_measured += [("Other GPUs, other data types, other shapes, other versions.",)]
    return Boundary(
        holds_for=tuple(holds),
        does_not_show=(*authored, *_eager(shown, ledger), (RUN_TO_RUN,)),
        not_measured=tuple(not_measured),
        excluded=_excluded(shown, ledger),
    )


def boundary_line(shown: Judged) -> str:
    """What the evidence holds for in one line, and that it ends there."""
    if not shown.evidence:
        return "Nothing is measured yet."
    cases, machine = shown.plan.included_cases, shown.machine
    dtypes = listed(sorted({case.dtype for case in cases}))
    count = "one case" if len(cases) == 1 else f"{len(cases)} cases"
    return f"Holds for one {shown.machine_name}, {count} in {dtypes}, torch {machine['torch']}, and for nothing else."


def _cases(cases: Sequence[PlannedCase]) -> str:
    """By operator and data type: 'RMSNorm in float16: 512×1024, 4096×8192; in bfloat16: 16×3584'."""
    shapes: dict[str, dict[str, list[str]]] = {}
    for case in cases:
        dtypes = shapes.setdefault(TITLES.get(case.op, case.op), {})
        dtypes.setdefault(case.dtype, []).append("×".join(map(str, case.shape)))
    return "; ".join(
        f"{operator} " + "; ".join(f"in {dtype}: {', '.join(found)}" for dtype, found in dtypes.items())
        for operator, dtypes in shapes.items()
    )


def _scope_sentence(shown: Judged) -> str:
    if shown.on_cpu:
        return "Wall time of one call on the CPU, its last-level cache flushed before each."
    return (
        "Verdicts in the scope that the claim names. device_cold: GPU time of one call with the L2 cache flushed; the "
        "host's launch is not counted. Of other scopes only what their own columns say."
    )


def _eager(shown: Judged, ledger: Ledger) -> tuple[Sentence, ...]:
    """What an eager caller gets of the headline's speed-up, where no claim says so."""
    if any(claim.scope == "eager" for claim in shown.plan.claims):
        return ()
    found = [
        (ratio["ratio"], (case, claim))
        for case, claims in (ledger.value("splits") or {}).items()
        for claim, parts in claims.items()
        if (ratio := parts["end_to_end"])
    ]
    if not found:
        return ()
    least, most = (
        ledger.figure("splits", *place, "end_to_end", "ratio", show=lambda v: f"{v:.2f}×") or ""
        for _, place in (min(found), max(found))
    )
    return (
        (
            "What eager callers gain, of which no claim is made: end to end, launch included, the headline pairs ran ",
            least, " to ", most, " as fast.",
        ),
    )  # fmt: skip


def _excluded(shown: Judged, ledger: Ledger) -> tuple[Sentence, ...]:
    """Cells without a time, grouped by reason; samples that were void; lines that were damaged."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for case, profile in shown.plan.cells():
        cell = shown.cell(case.name, profile.name)
        if cell["outcome"] != "measured" or cell["reason"]:
            reasons.setdefault((cell["outcome"], cell["reason"]), []).append(f"{profile.title} at {shape_label(case)}")
    found: list[Sentence] = [
        (f"{'; '.join(names)}: {outcome}, {reason.rstrip('.')}.",) for (outcome, reason), names in reasons.items()
    ]
    for case in shown.plan.included_cases:
        if ledger.value("controls", case.name, "spoiled_share"):
            because = ", ".join(ledger.value("controls", case.name, "spoiled_because"))
            spoiled = ledger.figure("controls", case.name, "spoiled_share", show=per_cent)
            found.append((f"{shape_label(case)}: ", spoiled or "", " of the rounds, for all profiles: ",
                          f"{because}."))  # fmt: skip
    for case in shown.plan.included_cases:
        for blind in ledger.value("gpu", case.name, "blind") or ():
            if not shown.on_cpu:
                found.append((f"{shape_label(case)}: the GPU's state is not known throughout: {blind}.",))
    starved = [
        (case, profile) for case, profile in shown.plan.cells() if shown.cell(case.name, profile.name).get("void_share")
    ]
    if starved:
        worst = max(starved, key=lambda pair: shown.cell(pair[0].name, pair[1].name)["void_share"])
        share = ledger.figure("cells", worst[0].name, worst[1].name, "void_share", show=lambda v: per_cent(v, 1))
        found.append(
            ("Samples that the GPU reached before the host had enqueued them are void; at most ",
             share or "", f" of a cell ({worst[1].title} at {shape_label(worst[0])}).")
        )  # fmt: skip
    damages = shown.evidence.get("damages", {})
    found += [(f"Journal line {number}: {damages[number]}.",) for number in sorted(damages, key=int)]
    return tuple(found)


def provenance(shown: Judged, ledger: Ledger) -> tuple[tuple[str, Sentence], ...]:
    evidence, machine = shown.evidence, shown.machine
    if not evidence:
        return ()
    variables = ", ".join(f"{name}={value}" for name, value in sorted(machine["environment"].items()))
    return (
        ("Run", (evidence["run_id"],)),
        ("Measured", (f"{evidence['started_utc']} to {evidence['finished_utc'] or 'unfinished'}",)),
        *((("Cut short", (evidence["cut_short"],)),) if evidence["cut_short"] else ()),
        ("Commit measured", (evidence["commit"] or "not known",)),
        ("Source digest", (evidence["source_digest"],)),
        ("Plan digest", (evidence["plan_digest"],)),
        ("Evidence digest", (shown.digest or "a preview: not published",)),
        *(_gpu(machine, ledger) if machine["device"] == "cuda" else ()),
        ("CPU", (f"{machine['cpu']}, {machine['cpu_count']} cores",)),
        ("torch / triton", (f"{machine['torch']} / {machine['triton'] or '–'}",)),
        ("Liger / quack", (f"{machine['liger'] or 'not installed'} / {machine['quack'] or 'not installed'}",)),
        ("Python / OS", (f"{machine['python']} / {machine['os']}",)),
        ("Variables", (variables or "none of those recorded",)),
        ("Policy", (f"version {evidence['policy_version_of_run']} when measured",)),
    )


def _gpu(machine: Mapping[str, Any], ledger: Ledger) -> tuple[tuple[str, Sentence], ...]:
    def told(name: str, show: Callable[[Any], str]) -> Figure | str:
        return ledger.figure("machine", name, show=show) or "not known"

    return (
        ("GPU", (f"{machine['gpu']}, compute capability {machine['compute_capability']}, "
                 f"{machine['multiprocessors']} SMs",)),
        ("Clock's floors", _floors(ledger)),
        ("Memory", (told("memory_bytes", format.gibibytes), ", L2 ", told("l2_bytes", format.mebibytes))),
        ("Peak bandwidth", (told("peak_bytes_per_second", lambda v: f"{v / 1e9:.0f} GB/s"),
                            " (memory clock × bus width)")),
        ("Power limit", (told("power_limit_watts", lambda v: f"{v:.0f} W"),)),
        ("ECC / MIG / persistence", (f"{machine['ecc']} / {machine['mig']} / {machine['persistence']}",)),
        ("Driver / CUDA", (f"{machine['driver']} / {machine['cuda']}",)),
        ("Nsight Compute", (machine["ncu"] or "not installed",)),
    )  # fmt: skip


def _floors(ledger: Ledger) -> Sentence:
    """What the clock reads at least, as the median of the processes."""
    kernel, events = (
        ledger.figure("evidence", f"median_{name}_seconds", show=lambda v: f"{format.microseconds(v)} µs")
        for name in ("launch_floor", "empty")
    )
    told: Sentence = (kernel or "not known", " for a kernel that does nothing")
    return (*told, ", ", events, " for two events with nothing between them") if events and events.value else told
