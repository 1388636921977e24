"""The folds of a case's page: what explains its times and verdicts, and what bears them out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.quantities import QUANTITIES, unit_of
from lab.verdict.cells import SCOPE
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure, joined
from lab.website.pages.kernels import HASH_DIGITS
from lab.website.pages.labels import profile_title
from lab.website.pages.run_links import comparable, elsewhere, finished, named_run, noted_run, view_of
from lab.website.table import (
    Code,
    Fold,
    PageTable,
    Soft,
    TableRow,
    Words,
    below,
    column,
    named,
    numbers,
    row,
    table_row,
    words,
)

MOST_PAIRS = 16  # implementations; the table of all pairs grows with their square
COMPILING_RECORDED, TUNING_RECORDED = 4, 6  # the schemas of records that began to hold seconds, the latter Inductor's
MOST_CODES = 3  # kernels of one call whose sums are shown
# Of the GPU while it was timed.
GPU = (
    "lowest_spin_hertz", "lowest_sm_hertz", "largest_power_watts", "largest_temperature_celsius",
    "energy_joules_per_sweep",
)  # fmt: skip
DRAWS = (
    named("sweep", "Sweep"), named("code", "Code"), named("configuration", "Configuration"),
    column("p50_seconds", "p50, µs"),
    column("compile_seconds", "Compiled in, s"), column("autotune_seconds", "Tuned in, s"),
)  # fmt: skip


def pairs_fold(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """Each against those that rank behind it; none where they are too many to read."""
    ranks = {name: rank for rank, name in enumerate(item.places(case.name, SCOPE))}
    profiles = sorted(item.measured_profiles(case.name), key=lambda profile: ranks.get(profile.name, len(ranks)))
    if not 1 < len(profiles) <= MOST_PAIRS:
        return None

    def cell(subject: PlannedProfile, baseline: PlannedProfile) -> Words:
        path = ("against", case.name, subject.name, baseline.name)
        return view.ratio(*path), below(view.interval(*path)), medians(view, *path)

    rows = [
        table_row(subject.title, *[()] * place, *(cell(subject, other) for other in profiles[place + 1 :]))
        for place, subject in enumerate(profiles[:-1])
    ]
    table = PageTable(
        label="Speed-ups of all pairs",
        heads=(*words("Implementation"), *numbers(*(f"over {profile.title}" for profile in profiles[1:]))),
        rows=rows,
        caption=(
            "How many times as fast the row is as the column, with the interval over sweeps; the fastest first. "
            "comparisons.csv has each pair both ways.",
        ),
    )
    return Fold(id="pairs", title="Every implementation against every other", tables=(table,))


def splits_fold(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """Where the speed-up of an eager call comes from, for each headline claim."""
    rows = []
    for claim in item.plan.claims:
        path = ("splits", case.name, claim.name)
        if view.value(*path):
            parts = ("end_to_end", "device", "launch")
            pair = f"{profile_title(item, claim.subject)} over {profile_title(item, claim.baseline)}"
            cells = ((view.ratio(*path, part), below(view.interval(*path, part))) for part in parts)
            rows.append(table_row(pair, *cells))
    heads = (*words("Pair"), *numbers("End to end", "Device", "Launch"))
    table = PageTable(label="Parts of eager speed-ups", heads=heads, rows=rows)
    lead = ("An eager caller waits for the host as well as for the GPU. The end-to-end speed-up is the product of the "
            "device's part, taken from CUDA graphs, and the launch's part. Below 1 a part costs time.",)  # fmt: skip
    return Fold(id="splits", title="Where an eager speed-up comes from", lead=lead, tables=(table,)) if rows else None


def distribution_fold(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """What each sweep, a process of its own, gave for each implementation."""
    swept = [
        (profile, cell)
        for profile in item.plan.profiles_of(case)
        if (cell := item.cell(case.name, profile.name)).get("sweep_p50_seconds")
    ]
    if not swept:
        return None
    most = max(len(cell["sweep_p50_seconds"]) for _, cell in swept)
    rows = []
    for profile, _ in swept:
        times = view.figures("cells", case.name, profile.name, "sweep_p50_seconds")
        rows.append(table_row(profile.title, *times, *[None] * (most - len(times))))
    heads = (*words("Implementation"), *numbers(*(f"sweep {number + 1}" for number in range(most))))
    table = PageTable(label="p50 of each sweep", heads=heads, rows=rows, caption=("p50 of each sweep, µs.",))
    lead = ("Each sweep is a process of its own, with the cells in another random order. How far apart "
            "their medians lie is what another process changes.",)  # fmt: skip
    return Fold(id="distribution", title="Sweep by sweep", lead=lead, tables=(table,))


def draws_fold(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """Which code each sweep drew of what is compiled or tuned at run time; on a CPU a compiler chooses nothing."""
    rows: list[TableRow] = []
    dashes: dict[str, None] = {}
    for profile in item.plan.profiles_of(case):
        path = ("cells", case.name, profile.name, "draws")
        if item.on_cpu or not (draws := view.value(*path)):
            continue
        fresh: Words = ("every sweep chose anew: ", view.figure(*path, "codes"), " different codes")
        once = ("one draw: the choice was made once for all sweeps, so their spread says nothing of another choice",)
        rows.append(table_row((profile.title, ": ", *(fresh if draws["fresh"] else once)), kind="group"))
        rows += [_draw(view.at(*path, "sweeps", str(number))) for number in range(len(draws["sweeps"]))]
        dashes |= dict.fromkeys(_dashes(draws, item.evidence["schema_of_run"]))
    caption = (" ".join(dashes),) if dashes else ()
    table = PageTable(label="Code by sweep", heads=DRAWS, rows=rows, caption=caption)
    return Fold(id="draws", title="Which code each sweep drew", tables=(table,)) if rows else None


def _dashes(draws: Mapping[str, Any], schema: int) -> Iterator[str]:
    """What a dash means in the columns of seconds."""
    if any(each["compile_seconds"] is None for each in draws["sweeps"]):
        if schema < COMPILING_RECORDED:
            yield "This run did not record how long it compiled."
        elif draws["fresh"]:
            yield (
                "Compiled in –: the binary came from an earlier sweep, or from the processes that compile before the "
                "first; the choice is timed anew in each sweep."
            )
        else:
            yield "Compiled in –: the binary was in the cache that all sweeps share."
    if schema < TUNING_RECORDED and any(each["autotune_seconds"] is None for each in draws["sweeps"]):
        yield "This run did not record how long Inductor tuned."


def _draw(view: DataView) -> TableRow:
    codes = [code[:HASH_DIGITS] for code in view.value("code").split()]
    more = [f"and {len(codes) - MOST_CODES} more"] if len(codes) > MOST_CODES else []
    code = " ".join([*codes[:MOST_CODES], *more]) or view.value("blind") or "not on record"
    configuration = Code(view.value("configuration") or "–")
    return row(view, DRAWS, sweep=str(view.value("sweep") + 1), code=Code(code), configuration=configuration)


def controls_fold(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
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
    title = "Controls" if item.on_cpu else "Controls, and the GPU meanwhile"
    return Fold(id="controls", title=title, items=tuple(items)) if items else None


def history_fold(item: Judged, published: Sequence[Judged], case: PlannedCase) -> Fold | None:
    """The case in every published run on the GPU model of the run shown; `published`: oldest first."""
    measured = [run for run in published if _measured(run, case.name)]
    runs = comparable(item, measured)
    if not measured:
        return None
    profiles = [p for p in item.plan.profiles_of(case) if any(_time(run, case, p) for run in runs)]
    rows = [
        table_row(noted_run(runs, number, item), finished(run), *(_time(run, case, profile) for profile in profiles))
        for number, run in enumerate(runs)
    ]
    heads = (*words("Run", "Date"), *numbers(*(profile.title for profile in profiles)))
    caption = ("p50 in µs. Software is named where it is not that of the run before.",)
    table = PageTable(label="p50 by published run", heads=heads, rows=rows[::-1], caption=caption)
    others = joined(
        ((named_run(run), f" ({run.machine_name}, {finished(run)})") for run in elsewhere(item, measured)),
        ", ",
    )
    items = (("On other machines, with which no time is compared: ", *others, "."),) if others else ()
    return Fold(id="history", title="This case in other published runs", tables=(table,) if rows else (), items=items)


def _measured(run: Judged, case: str) -> bool:
    return any("p50_seconds" in cell for cell in run.data["cells"].get(case, {}).values())


def _time(run: Judged, case: PlannedCase, profile: PlannedProfile) -> Figure | None:
    return view_of(run).figure("cells", case.name, profile.name, "p50_seconds")


def medians(view: DataView, *path: str) -> Soft | str:
    """The quotient of the two medians, where it is not the ratio of the comparison at `path`."""
    return below("medians ", view.figure(*path, "quotient_of_medians", show=format.times))
