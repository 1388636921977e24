"""Where the evidence ends: what it holds for, what it does not show, what was left out and why."""

import statistics
from collections.abc import Sequence

from lab.evidence.record import SweepStart
from lab.website import format
from lab.website.figure import Ledger, Sentence
from lab.website.naming import machine_name
from lab.website.pages.labels import case_label, shape_label
from lab.website.pages.views import Boundary, Shown

RUN_TO_RUN = (
    "How much another run, machine or compilation would vary: an interval speaks for the processes of this run."
)

TRAFFIC_PASS = (
    "Verdicts on traffic: DRAM bytes of one call, counted by Nsight Compute in one pass of its own, at the clocks of "
    "that pass, with the caches emptied before each kernel."
)


def boundary(shown: Shown, ledger: Ledger) -> Boundary:
    plan, run = shown.result.plan, shown.run
    authored: tuple[Sentence, ...] = tuple((limit,) for limit in plan.does_not_show)
    if run is None:
        return Boundary(holds_for=(), does_not_show=authored, not_measured=(), excluded=())
    machine = run.machine
    versions = f"torch {machine.torch}, triton {machine.triton}"
    driver = f", driver {machine.driver}, CUDA {machine.cuda}" if machine.device == "cuda" else ""
    cases = ", ".join(case_label(case) for case in plan.included_cases)
    holds: list[Sentence] = [
        (f"{machine_name(machine)}: this one machine.",),
        (f"{versions}{driver}, Python {machine.python}.",),
        (f"{cases}.",),
        (_scope_sentence(shown),),
    ]
    if any(verdict.traffic for claim in shown.result.claims for verdict in claim.verdicts.values()):
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


def _scope_sentence(shown: Shown) -> str:
    if shown.on_cpu:
        return "Wall time of one call on the CPU, its last-level cache flushed before each."
    return (
        "Verdicts in the scope that the claim names. device_cold: GPU time of one call with the L2 cache flushed; the "
        "host's launch is not counted. Of other scopes only what their own columns say."
    )


def _eager(shown: Shown, ledger: Ledger) -> tuple[Sentence, ...]:
    """What an eager caller gets of the headline's speed-up, where no claim says so."""
    if any(claim.scope == "eager" for claim in shown.result.plan.claims):
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


def _excluded(shown: Shown, ledger: Ledger) -> tuple[Sentence, ...]:
    """Cells without a time, grouped by reason; samples that were void; lines that were damaged."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for case, profile in shown.result.plan.cells():
        cell = shown.result.cells[case.name, profile.name]
        if cell.outcome != "measured" or cell.reason:
            reasons.setdefault((cell.outcome, cell.reason), []).append(f"{profile.title} at {shape_label(case)}")
    found: list[Sentence] = [
        (f"{'; '.join(names)}: {outcome}, {reason}.",) for (outcome, reason), names in reasons.items()
    ]
    for case in shown.result.plan.included_cases:
        if shown.result.spoiled_share(case.name):
            spoiled = ledger.figure("controls", case.name, "spoiled_share", show=lambda v: f"{v:.0%}")
            found.append((f"{shape_label(case)}: ", spoiled or "", " of the rounds, for all profiles: ",
                          f"{_spoiled_because(shown, case.name)}."))  # fmt: skip
    for case in shown.result.plan.included_cases:
        for blind in ledger.value("gpu", case.name, "blind") or ():
            if not shown.on_cpu:
                found.append((f"{shape_label(case)}: the GPU's state is not known throughout: {blind}.",))
    starved = [
        (case, profile)
        for case, profile in shown.result.plan.cells()
        if shown.result.cells[case.name, profile.name].void_share > 0
    ]
    if starved:
        worst = max(starved, key=lambda pair: shown.result.cells[pair[0].name, pair[1].name].void_share)
        share = ledger.figure("cells", worst[0].name, worst[1].name, "void_share", show=lambda v: f"{v:.1%}")
        found.append(
            ("Samples that the GPU reached before the host had enqueued them are void; at most ",
             share or "", f" of a cell ({worst[1].title} at {shape_label(worst[0])}).")
        )  # fmt: skip
    if shown.run and shown.run.damages:
        found += [(f"Journal line {d.line_number}: {d.reason}.",) for d in shown.run.damages]
    return tuple(found)


def _spoiled_because(shown: Shown, case: str) -> str:
    """The reasons for which rounds of a case were left out; figures in them are those of single rounds."""
    places = shown.result.spoiled.by_round.items()
    reasons = {
        reason.partition(" was off by")[0]
        for place, rounds in places
        if place[2:] == (shown.result.plan.name, case)
        for reason in rounds.values()
    }
    return ", ".join(sorted(reasons))


def provenance(shown: Shown) -> tuple[tuple[str, str], ...]:
    if shown.run is None:
        return ()
    run, machine = shown.run, shown.run.machine
    gpu = (
        ("GPU", f"{machine.gpu}, compute capability {machine.compute_capability}, {machine.multiprocessors} SMs"),
        ("Clock's floors", _floors(run.sweeps)),
        ("Memory", f"{machine.memory_bytes / 2**30:.0f} GiB, L2 {machine.l2_bytes / 2**20:.0f} MiB"),
        ("Peak bandwidth", f"{machine.peak_bytes_per_second / 1e9:.0f} GB/s (memory clock × bus width)"),
        ("Power limit", f"{machine.power_limit_watts:.0f} W"),
        ("ECC / MIG / persistence", f"{machine.ecc} / {machine.mig} / {machine.persistence}"),
        ("Driver / CUDA", f"{machine.driver} / {machine.cuda}"),
        ("Nsight Compute", machine.ncu or "not installed"),
    )
    return (
        ("Run", run.plan.run_id),
        ("Measured", f"{run.start.started_utc} to {run.finished_utc or 'unfinished'}"),
        *((("Ended before its end", run.finish.cut_short),) if run.finish and run.finish.cut_short else ()),
        ("Commit measured", shown.commit or run.start.commit or "not known"),
        ("Source digest", run.start.source_digest),
        ("Plan digest", run.start.plan_digest),
        ("Evidence digest", shown.digest or "a preview: not published"),
        *(gpu if machine.device == "cuda" else ()),
        ("CPU", f"{machine.cpu}, {machine.cpu_count} cores"),
        ("torch / triton", f"{machine.torch} / {machine.triton or '–'}"),
        ("Liger / quack", f"{machine.liger or 'not installed'} / {machine.quack or 'not installed'}"),
        ("Python / OS", f"{machine.python} / {machine.os}"),
        (
            "Variables",
            ", ".join(f"{k}={v}" for k, v in sorted(machine.environment.items())) or "none of those recorded",
        ),
        ("Policy", f"version {run.plan.policy_version} when measured"),
    )


def _floors(sweeps: Sequence[SweepStart]) -> str:
    """What the clock reads at least, as the median of the processes."""
    kernel = statistics.median(sweep.launch_floor_seconds for sweep in sweeps)
    events = statistics.median(sweep.empty_seconds for sweep in sweeps)
    told = f"{format.microseconds(kernel)} µs for a kernel that does nothing"
    return f"{told}, {format.microseconds(events)} µs for two events with nothing between them" if events else told
