"""Where the evidence ends: what was measured, what it does not show, what was left out and why."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace as View

from lab.definition.experiment import CEILINGS
from lab.definition.plan import PlannedCase
from lab.verdict.statistics import per_cent
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Sentence, extremes
from lab.website.pages.labels import DTYPES, case_label, listed, shape_label, titled

BEYOND_GPU = "Another GPU model, or other versions; a ratio's interval allows for other boards of this model."
BEYOND_CPU = "Another machine, or other versions."

BYTES_COUNTED = {
    "traffic": (
        "Verdicts on traffic: DRAM bytes of one call, counted by Nsight Compute in one pass of its own, at the clocks "
        "of that pass, with the caches emptied before each kernel."
    ),
    "memory": (
        "Verdicts on memory: what torch's allocator counts in one call of each sweep; what a library takes from the "
        "driver itself is not in it."
    ),
}


def boundary(shown: Judged, view: DataView) -> View:
    plan, machine = shown.plan, shown.machine
    authored: tuple[Sentence, ...] = tuple((limit,) for limit in plan.does_not_show)
    if not shown.evidence:
        return View(measured=(), does_not_show=authored, not_measured=(), excluded=())
    versions = f"torch {machine['torch']}, triton {machine['triton']}"
    driver = f", driver {machine['driver']}, CUDA {machine['cuda']}" if machine["device"] == "cuda" else ""
    measured: list[Sentence] = [
        (_machines(shown),),
        (f"{versions}{driver}, Python {machine['python']}.",),
        (f"{_cases(_measured(shown))}.",),
        (_scope_sentence(shown),),
    ]
    compared = {
        claim["measure"]
        for claim in shown.data["claims"].values()
        if any("subject_bytes" in verdict for verdict in claim["cases"].values())
    }
    measured += [(said,) for measure, said in BYTES_COUNTED.items() if measure in compared]
    not_measured: list[Sentence] = [
        (f"{case_label(case)}: not part of this run ({case.option}).",) for case in plan.cases if not case.included
    ]
    not_measured += _without_hardware(shown)
    machines = "Other machines" if shown.on_cpu else "Other GPUs"
    not_measured += [(f"{machines}, other data types, other shapes, other versions.",)]
    return View(
        measured=tuple(measured),
        does_not_show=(*authored, *_eager(shown, view), (BEYOND_CPU if shown.on_cpu else BEYOND_GPU,)),
        not_measured=tuple(not_measured),
        excluded=_excluded(shown, view),
    )


def _without_hardware(shown: Judged) -> Iterator[Sentence]:
    """What a run on a GPU leaves out where it measures no ceilings, or is not profiled."""
    if shown.on_cpu or shown.plan.name == CEILINGS:
        return
    if shown.data["limits"] is None:
        yield (f"How a call compares with this GPU's own copies and matmuls: the run has no {CEILINGS} beside it.",)
    if not any(shown.cell(case.name, profile.name).get("traffic") for case, profile in shown.plan.cells()):
        without = "" if shown.evidence["profiling"] else ", which had no --with-profiling"
        yield (f"DRAM traffic and counters: the profiler counted none in this run{without}.",)


def boundary_line(shown: Judged) -> str:
    """What was measured in one line, and that the evidence ends there."""
    if not shown.evidence:
        return "Nothing is measured yet."
    cases, machine = _measured(shown), shown.machine
    if not cases:
        return f"Nothing could be measured on {shown.machine_name}."
    dtypes = listed(sorted({DTYPES.get(case.dtype, case.dtype) for case in cases}))
    count = "one case" if len(cases) == 1 else f"{len(cases)} cases"
    one = "one " if shown.on_cpu else ""
    return f"Measured on {one}{shown.machine_name}, {count} in {dtypes}, torch {machine['torch']}; on nothing else."


def _machines(shown: Judged) -> str:
    if shown.on_cpu:
        return f"{shown.machine_name}: this one machine."
    boards = len(set(shown.machine["gpu_id"].split("+")))
    return f"{shown.machine_name}, of which {'one board was' if boards == 1 else f'{boards} boards were'} measured."


def _measured(shown: Judged) -> list[PlannedCase]:
    """The cases at which at least one implementation was measured."""
    return [
        case
        for case in shown.plan.included_cases
        if any(shown.cell(case.name, each.name)["outcome"] == "measured" for each in shown.plan.profiles_of(case))
    ]


def _cases(cases: Sequence[PlannedCase]) -> str:
    """By operator and data type: 'RMSNorm in fp16: 512×1024, 4096×8192; in bf16: 16×3584'."""
    shapes: dict[str, dict[str, list[str]]] = {}
    for case in cases:
        dtypes = shapes.setdefault(titled(case.op), {})
        dtypes.setdefault(DTYPES.get(case.dtype, case.dtype), []).append("×".join(map(str, case.shape)))
    return "; ".join(
        f"{operator} "
        + "; ".join(f"in {dtype}: {', '.join(shapes_of_dtype)}" for dtype, shapes_of_dtype in dtypes.items())
        for operator, dtypes in shapes.items()
    )


def _scope_sentence(shown: Judged) -> str:
    if shown.on_cpu:
        return "Wall time of one call on the CPU, its last-level cache flushed before each."
    return (
        "Verdicts by the clock that the claim names; where it names none, the GPU time of one call with a cold L2 "
        "cache, without the host's launch. Other clocks say only what stands in their own columns."
    )


def _eager(shown: Judged, view: DataView) -> tuple[Sentence, ...]:
    """What an eager caller gets of the headline's speed-up, where no claim says so."""
    if any(claim.scope == "eager" for claim in shown.plan.claims):
        return ()
    pairs = [("splits", case, claim) for case, claims in (view.value("splits") or {}).items() for claim in claims]
    ratios = (view.figure(*pair, "end_to_end", "ratio", show=lambda v: f"{v:.2f}×") for pair in pairs)
    if not (told := extremes(ratios)):
        return ()
    about = "What eager callers gain, of which no claim is made: end to end, launch included, the headline pairs ran "
    return ((about, *told, " as fast."),)


def _excluded(shown: Judged, view: DataView) -> tuple[Sentence, ...]:
    """Cells without a time, grouped by reason; samples that were void; lines that were damaged."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for case, profile in shown.plan.cells():
        cell = shown.cell(case.name, profile.name)
        if cell["outcome"] != "measured" or cell["reason"]:
            reasons.setdefault((cell["outcome"], cell["reason"]), []).append(f"{profile.title} at {shape_label(case)}")
    sentences: list[Sentence] = [
        (f"{'; '.join(names)}: {outcome}, {reason.rstrip('.')}.",) for (outcome, reason), names in reasons.items()
    ]
    for case in shown.plan.included_cases:
        if view.value("controls", case.name, "spoiled_share"):
            because = ", ".join(view.value("controls", case.name, "spoiled_because"))
            spoiled = view.figure("controls", case.name, "spoiled_share", show=per_cent)
            sentences.append((f"{shape_label(case)}: ", spoiled or "", " of the rounds, for all profiles: ",
                          f"{because}."))  # fmt: skip
    for case in shown.plan.included_cases:
        for blind in view.value("gpu", case.name, "blind") or ():
            if not shown.on_cpu:
                sentences.append((f"{shape_label(case)}: the GPU's state is not known throughout: {blind}.",))
    starved = [
        (case, profile) for case, profile in shown.plan.cells() if shown.cell(case.name, profile.name).get("void_share")
    ]
    if starved:
        worst = max(starved, key=lambda pair: shown.cell(pair[0].name, pair[1].name)["void_share"])
        share = view.figure("cells", worst[0].name, worst[1].name, "void_share", show=lambda v: per_cent(v, 1))
        sentences.append(
            ("Samples that the GPU reached before the host had enqueued them are void; at most ",
             share or "", f" of a cell ({worst[1].title} at {shape_label(worst[0])}).")
        )  # fmt: skip
    damages = shown.evidence.get("damages", {})
    sentences += [(f"Journal line {number}: {damages[number]}.",) for number in sorted(damages, key=int)]
    return tuple(sentences)
