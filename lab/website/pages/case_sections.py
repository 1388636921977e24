"""The sections of a case's page: on its face times, claims, limits; behind folds what explains and bears them out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lab.definition.claim_words import BYTES_WORDS, claim_sentence
from lab.definition.experiment import CEILINGS
from lab.definition.plan import PlannedCase, PlannedProfile
from lab.quantities import QUANTITIES, unit_of
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.addresses import experiment_folder
from lab.website.charts.rows import Swept, sweeps_chart
from lab.website.charts.svg import series
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure
from lab.website.pages.claims import pooled_sentence
from lab.website.pages.hardware import limits_table, traffic_table
from lab.website.pages.history import comparable, elsewhere, finished, software, verdict_data_file, verdict_link
from lab.website.pages.kernels import HASH_DIGITS, kernels_fold
from lab.website.pages.labels import profile_title, scope_words
from lab.website.pages.replication import printed_reasons
from lab.website.pages.soundness import clock_notes, correctness_table, faster_cold, legend, other_clocks
from lab.website.table import (
    Code,
    Fold,
    Link,
    PageTable,
    Soft,
    Strong,
    TableRow,
    VerdictChip,
    Words,
    column,
    named,
    numbers,
    row,
    table_row,
    words,
)
from lab.website.verdict_words import case_word

ROOT = "../../../../"  # from a case's page to the site's root
MOST_PAIRS = 16  # implementations; the table of all pairs grows with their square
MOST_CODES = 3  # kernels of one call whose sums are shown
EXPERIMENT = "../../index.html"  # from a case's page
SHORT_COLD = (
    "Some calls are shorter here than warm or in a graph: what they write stays in L2, and its way to memory is not "
    "timed; in the other two the write-back of one call falls into the next."
)
MEDIANS = (
    "A ratio is the mean over all sweeps of rounds that were timed one after the other. The median leaves out sweeps "
    "that were slower or faster than most: where the quotient of two medians is another, it stands beside the ratio."
)
# Of the GPU while it was timed.
GPU = (
    "lowest_spin_hertz", "lowest_sm_hertz", "largest_power_watts", "largest_temperature_celsius",
    "energy_joules_per_sweep",
)  # fmt: skip
CELLS = (
    named("profile", "Implementation"), column("p50_seconds", "p50, µs"), column("p95_seconds", "p95, µs"),
    column("noise_ratio", "Noise"), column("between_sweep_spread", "Spread, %", show=format.share),
    column("bytes_per_second", "GB/s"), column("enqueue_seconds", "Host, µs"),
    column("prepare_seconds", "Prepared in, s"), column("peak_memory_bytes", "Memory, MB"),
    column("samples", "Samples"),
)  # fmt: skip
DRAWS = (
    named("sweep", "Sweep"), named("code", "Code"), named("configuration", "Configuration"),
    column("p50_seconds", "p50, µs"),
    column("compile_seconds", "Compiled in, s"), column("autotune_seconds", "Tuned in, s"),
)  # fmt: skip


def sections(
    item: Judged, case: PlannedCase, view: DataView, published: Sequence[Judged], trust: Mapping[str, Any]
) -> tuple[tuple[Fold, ...], tuple[Fold, ...]]:
    """Those on the face, and those behind folds."""
    history = _history(item, published, case)
    if not case.included or not item.evidence:
        return tuple(each for each in (_printed(case, view),) if each), (history,) if history else ()
    face = (_cells(item, case, view), _claims(item, case, view, trust), _scopes(item, case, view),
            _limits(item, case, view), _printed(case, view))  # fmt: skip
    folds = (
        _pairs(item, case, view), _splits(item, case, view), _clocks(item, case, view),
        _traffic(item, case, view), kernels_fold(item, case, view), _correctness(item, case, view),
        _distribution(item, case, view), _draws(item, case, view), _controls(item, case, view), history,
    )  # fmt: skip
    return tuple(each for each in face if each), tuple(each for each in folds if each)


def _cells(item: Judged, case: PlannedCase, view: DataView) -> Fold:
    rows = [_cell(item, case, profile, view) for profile in item.plan.profiles_of(case)]
    clock = scope_words(SCOPE, item.on_cpu).clock
    caption = (
        f"{clock[:1].upper()}{clock[1:]}. Noise "
        "is p95 / p50; spread is the slowest over the fastest sweep, less one. GB/s divides the least traffic by p50. "
        "Host is what Python needs to enqueue a call; memory the most that a call allocates beyond its inputs."
    )
    remarks: list[Words] = []
    if any(faster_cold(item, case.name, each.name) for each in item.plan.profiles_of(case)):
        remarks.append((SHORT_COLD,))
    if _any_quotient(case, view):
        remarks.append((MEDIANS,))
    if view.value("gpu", case.name, "power_capped"):
        remarks.append(
            ("The GPU was at its power limit for part of the time, which may slow the longest kernels most.",)
        )
    table = PageTable(label="Every implementation", heads=CELLS, rows=rows, caption=(caption,))
    return Fold(id="cells", title="Every implementation", tables=(table,), items=tuple(remarks))


def _cell(item: Judged, case: PlannedCase, profile: PlannedProfile, view: DataView) -> TableRow:
    cell, at = item.cell(case.name, profile.name), view.at("cells", case.name, profile.name)
    link = Link(profile.title, f"../../../../profiles/{experiment_folder(profile.name)}/index.html")
    if cell["outcome"] != "measured":
        why: Words = (Strong((cell["outcome"],)), Soft((cell["reason"],)) if cell["reason"] else "")
        return table_row(link, why, *[()] * (len(CELLS) - 2))
    place = item.places(case.name, SCOPE).get(profile.name)
    first = place is not None and place.rank == 1
    rate = at.figure("bytes_per_second")
    host = at.figure("enqueue_seconds") if cell.get("enqueue_seconds") else None
    cells = row(
        at, CELLS,
        profile=(link, *((Soft((f"fastest{place.doubt}",)),) if first and place else ())),
        p50_seconds=(
            at.figure("p50_seconds") or Soft((cell.get("unmeasured", {}).get(SCOPE, ""),)),
            *map(Soft, clock_notes(item, case.name, profile.name, view)),
        ),
        bytes_per_second=Soft(("launch-bound",)) if rate is None and cell.get("launch_bound") else rate,
        enqueue_seconds=(host, *((Soft(("host-bound",)),) if cell.get("host_bound") else ())),
    )  # fmt: skip
    return replace(cells, kind="best" if first else "")


def _claims(item: Judged, case: PlannedCase, view: DataView, trust: Mapping[str, Any]) -> Fold | None:
    rows = []
    for claim in item.plan.claims:
        path = ("claims", claim.name, "cases", case.name)
        if not (verdict := view.value(*path)):
            continue
        of_bytes = claim.measure in BYTES_WORDS
        pooled = pooled_sentence(trust, item, claim, case.name, ROOT)
        reason = (Soft((verdict["reason"],)),) if verdict["reason"] else ()
        chip = VerdictChip(verdict["status"], verdict["mark"], verdict["reason"], case_word(verdict, claim.measure))
        rows.append(
            table_row(
                Link(claim_sentence(claim), f"{EXPERIMENT}#claim-{claim.name}"),
                (chip, *reason),
                (view.figure(*path, "ratio") if of_bytes else view.ratio(*path), *_medians(_quotient(view, *path))),
                (None if of_bytes else view.interval(*path), *((Soft(pooled),) if pooled else ())),
            )
        )
    heads = (*words("Claim", "Verdict here"), *numbers("Ratio", "Interval"))
    table = PageTable(label="Claims about this case", kind="claims", heads=heads, rows=rows)
    return Fold(id="claims", title="What is claimed of this case", tables=(table,)) if rows else None


def _scopes(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """The same call cold, warm, in a graph, and as an eager caller waits."""
    scopes = item.plan.scopes
    if len(scopes) < 2:
        return None
    rows = []
    for profile in item.measured_profiles(case.name):
        cells: list[Words] = []
        for scope in scopes:
            figure = view.at("cells", case.name, profile.name, "scopes", scope).figure
            p50, p95 = (figure(f"{name}_seconds") for name in ("p50", "p95"))
            why_not = view.value("cells", case.name, profile.name, "unmeasured", scope) or "not measured"
            cells.append((p50, *((Soft((p95,)),) if p95 else ())) if p50 else (Soft((why_not,)),))
        rows.append(table_row(profile.title, *cells))
    covers = "; ".join(f"{scope} is {says}" for scope, says in legend(scopes, item.on_cpu))
    table = PageTable(
        label="Times by scope", heads=(*words("Implementation"), *numbers(*scopes)), rows=rows,
        caption=("p50 and, under it, p95, in µs.",),
    )  # fmt: skip
    lead: Words = (f"{covers[:1].upper()}{covers[1:]}. No comparison mixes them.",)
    return Fold(id="scopes", title="Cold, warm, in a graph, eager", lead=lead, tables=(table,))


def _limits(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    table = limits_table(item, case, view)
    where = Link("Ceilings", f"{EXPERIMENT}#{'ceilings' if item.plan.name == CEILINGS else 'limits'}")
    lead: Words = ("The limit is the longer of two times: a copy of as many bytes in the same scope, and the "
                   "operations at the measured matrix rate, both of this GPU in this run. ", where, ".")  # fmt: skip
    return Fold(id="limits", title="How far from the hardware's limit", lead=lead, tables=(table,)) if table else None


def _printed(case: PlannedCase, view: DataView) -> Fold | None:
    """Why published speed-ups of this case differ from those here."""
    items: list[Words] = []
    for printed in printed_reasons(case, view):
        product = (Strong(printed.product), " ") if printed.product else ()
        items.append((f"{printed.table}: ", *product, *(part for why in printed.why for part in (*why, " "))))
    where = Link("A table of the experiment", f"{EXPERIMENT}#replication")
    lead: Words = (where, " holds the published figures beside those measured here.")
    return (
        Fold(id="published", title="Why published speed-ups differ", lead=lead, items=tuple(items)) if items else None
    )


def _pairs(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """Each against each other; none where they are too many to read."""
    profiles = item.measured_profiles(case.name)
    if not 1 < len(profiles) <= MOST_PAIRS:
        return None

    def cell(subject: PlannedProfile, baseline: PlannedProfile) -> Words:
        path = ("against", case.name, subject.name, baseline.name)
        if subject == baseline:
            return ()
        return view.ratio(*path), Soft((view.interval(*path),)), *_medians(_quotient(view, *path))

    rows = [table_row(subject.title, *(cell(subject, other) for other in profiles)) for subject in profiles]
    table = PageTable(
        label="Speed-ups of all pairs",
        heads=(*words("Implementation"), *numbers(*(f"over {profile.title}" for profile in profiles))),
        rows=rows,
        caption=("How many times as fast the row is as the column, with the interval over sweeps.",),
    )
    return Fold(id="pairs", title="Every implementation against every other", tables=(table,))


def _splits(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """Where the speed-up of an eager call comes from, for each headline claim."""
    rows = []
    for claim in item.plan.claims:
        path = ("splits", case.name, claim.name)
        if view.value(*path):
            parts = ("end_to_end", "device", "launch")
            pair = f"{profile_title(item, claim.subject)} over {profile_title(item, claim.baseline)}"
            cells = ((view.ratio(*path, part), Soft((view.interval(*path, part),))) for part in parts)
            rows.append(table_row(pair, *cells))
    heads = (*words("Pair"), *numbers("End to end", "Device", "Launch"))
    table = PageTable(label="Parts of eager speed-ups", heads=heads, rows=rows)
    lead = ("An eager caller waits for the host as well as for the GPU. The end-to-end speed-up is the product of the "
            "device's part, taken from CUDA graphs, and the launch's part. Below 1 a part costs time.",)  # fmt: skip
    return Fold(id="splits", title="Where an eager speed-up comes from", lead=lead, tables=(table,)) if rows else None


def _clocks(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    table = other_clocks(item, case, view)
    lead = ("Verdicts depend on the clock. The lab's device_cold reads back what its flush wrote, so no write-back is "
            "timed; do_bench and nvbench leave dirty lines, whose write-back falls into the timed window. A ratio in "
            "bold lies on the other side of the claim's threshold.",)  # fmt: skip
    return Fold(id="clocks", title="The same pairs by other clocks", lead=lead, tables=(table,)) if table else None


def _traffic(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    table = traffic_table(item, case, view)
    return Fold(id="traffic", title="Bytes moved, against the least possible", tables=(table,)) if table else None


def _correctness(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    table = correctness_table(item, case, view)
    lead = ("Checked on this shape before anything was timed, in every sweep, and again on timed outputs, against a "
            "float64 reference. Share is the largest error over what is tolerated: above one is wrong, unless the "
            "error is at most twice that of the standard implementation. Edge inputs are out of the ordinary on "
            "purpose; an implementation may refuse one by raising an error.",)  # fmt: skip
    return Fold(id="correctness", title="Correctness", lead=lead, tables=(table,)) if table else None


def _distribution(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """What each sweep, a process of its own, gave for each implementation."""
    swept = [
        (profile, cell)
        for profile in item.plan.profiles_of(case)
        if (cell := item.cell(case.name, profile.name)).get("sweep_p50_seconds")
    ]
    if not swept:
        return None
    most = max(len(cell["sweep_p50_seconds"]) for _, cell in swept)
    chart = sweeps_chart(
        [
            Swept(profile=profile.title, series=series(profile.name), p50_seconds=cell["p50_seconds"],
                  sweep_p50_seconds=tuple(cell["sweep_p50_seconds"]))
            for profile, cell in swept
        ]
    )  # fmt: skip
    rows = []
    for profile, _ in swept:
        times = view.figures("cells", case.name, profile.name, "sweep_p50_seconds")
        rows.append(table_row(profile.title, *times, *[None] * (most - len(times))))
    heads = (*words("Implementation"), *numbers(*(f"sweep {number + 1}" for number in range(most))))
    table = PageTable(label="p50 of each sweep", heads=heads, rows=rows, caption=("p50 of each sweep, µs.",))
    lead = ("Each sweep is a process of its own, with the cells in another random order. A dot is the p50 of one: "
            "how far apart they lie is what another process changes.",)  # fmt: skip
    return Fold(id="distribution", title="Sweep by sweep", lead=lead, picture=chart, tables=(table,))


def _draws(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """Which code each sweep drew of what is compiled or tuned at run time; on a CPU a compiler chooses nothing."""
    rows: list[TableRow] = []
    for profile in item.plan.profiles_of(case):
        path = ("cells", case.name, profile.name, "draws")
        if item.on_cpu or not (draws := view.value(*path)):
            continue
        fresh: Words = ("every sweep compiled and chose anew: ", view.figure(*path, "codes"), " different codes")
        once = ("one draw: the choice was made once for all sweeps, so their spread says nothing of another choice",)
        rows.append(table_row((profile.title, ": ", *(fresh if draws["fresh"] else once)), kind="group"))
        rows += [_draw(view.at(*path, "sweeps", str(number))) for number in range(len(draws["sweeps"]))]
    table = PageTable(label="Code by sweep", heads=DRAWS, rows=rows)
    return Fold(id="draws", title="Which code each sweep drew", tables=(table,)) if rows else None


def _draw(view: DataView) -> TableRow:
    codes = [code[:HASH_DIGITS] for code in view.value("code").split()]
    more = [f"and {len(codes) - MOST_CODES} more"] if len(codes) > MOST_CODES else []
    code = " ".join([*codes[:MOST_CODES], *more]) or view.value("blind") or "not on record"
    configuration = Code(view.value("configuration") or "–")
    return row(view, DRAWS, sweep=str(view.value("sweep") + 1), code=Code(code), configuration=configuration)


def _controls(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """One implementation against itself, and what the GPU did meanwhile."""
    path, items = ("controls", case.name), []
    if twin := view.value(*path, "profile"):
        ratio, interval = view.ratio(*path, "scopes", SCOPE), view.interval(*path, "scopes", SCOPE)
        spoiled = view.figure(*path, "spoiled_share", show=format.whole_percent)
        left: Words = ("No round had to be left out.",)
        if spoiled and spoiled.value:
            left = (spoiled, " % of the rounds were left out, for all alike.")
        items.append((f"{profile_title(item, twin)} was timed twice, under two names: it ran ", ratio, " ", interval,
                     " as fast as itself, which is the lab's own error here. ", *left))  # fmt: skip
    for key in GPU:
        if figure := view.figure("gpu", case.name, key):
            items.append((f"{QUANTITIES[key].label}: ", figure, f" {unit_of(key).symbol}"))
    return Fold(id="controls", title="Controls, and the GPU meanwhile", items=tuple(items)) if items else None


def _history(item: Judged, published: Sequence[Judged], case: PlannedCase) -> Fold | None:
    """The case in every published run on the GPU model of the run shown; `published`: oldest first."""
    measured = [run for run in published if _measured(run, case.name)]
    runs = comparable(item, measured)
    if not measured:
        return None
    profiles = [p for p in item.plan.profiles_of(case) if any(_time(run, case, p) for run in runs)]
    rows = []
    for number, run in enumerate(runs):
        notes = ["shown here"] if run.digest == item.digest else []
        if number == 0 or software(run) != software(runs[number - 1]):
            notes.append(software(run))
        name: Words = (Link(run.evidence["run_id"], verdict_link(run, ROOT)), *(Soft((note,)) for note in notes))
        rows.append(table_row(name, finished(run), *(_time(run, case, profile) for profile in profiles)))
    heads = (*words("Run", "Date"), *numbers(*(profile.title for profile in profiles)))
    caption = ("p50 in µs. Software is named where it is not that of the run before.",)
    table = PageTable(label="p50 by published run", heads=heads, rows=rows[::-1], caption=caption)
    others: list[Any] = []
    for other in elsewhere(item, measured, ROOT):
        others += [", " if others else "", Link(other.run_id, other.link), f" ({other.machine}, {other.date})"]
    items: tuple[Words, ...] = ()
    if others:
        items = (("On other machines, with which no time is compared: ", *others, "."),)
    return Fold(id="history", title="This case in other published runs", tables=(table,) if rows else (), items=items)


def _measured(run: Judged, case: str) -> bool:
    return any("p50_seconds" in cell for cell in run.data["cells"].get(case, {}).values())


def _time(run: Judged, case: PlannedCase, profile: PlannedProfile) -> Figure | None:
    return DataView(run.data, f"{verdict_data_file(run, ROOT)}#").figure(
        "cells", case.name, profile.name, "p50_seconds"
    )


def _quotient(view: DataView, *path: str) -> Figure | None:
    return view.figure(*path, "quotient_of_medians", show=format.times)


def _medians(quotient: Figure | None) -> Iterator[Soft]:
    if quotient:
        yield Soft(("medians ", quotient))


def _any_quotient(case: PlannedCase, view: DataView) -> bool:
    pairs = (view.value("against", case.name) or {}).values()
    return any("quotient_of_medians" in (speedup or {}) for baselines in pairs for speedup in baselines.values())
