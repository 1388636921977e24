"""How far each cell of a case is from what the hardware allows, what it does at the power limit, and what it moved."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from lab.definition.experiment import CEILINGS, GRAPH
from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import SCOPE
from lab.verdict.explained import EXPLAINED_WITHIN
from lab.verdict.statistics import per_cent
from lab.website import format
from lab.website.addresses import case_address, experiment_folder
from lab.website.charts.rows import Bar, bars
from lab.website.charts.svg import series
from lab.website.data.judged import Judged
from lab.website.data.published_limits import LIMIT_SCOPES
from lab.website.figure import DataView, Figure, Sentence
from lab.website.pages.ceilings import reached
from lab.website.pages.labels import case_label, profile_title, scope_title
from lab.website.pages.standing import serious_rivals
from lab.website.table import (
    Constant,
    Fold,
    Link,
    PageTable,
    Words,
    below,
    column,
    named,
    numbers,
    row,
    table_row,
    words,
)

LIMITS = (
    named("case", "Case"), named("limit", "Limited by"), column("seconds", "Reference, µs"),
    column("flops_per_byte", "FLOP per byte"),
)  # fmt: skip
SUSTAINED = (
    named("profile", "Implementation"), column("seconds", "Back to back, µs"), column("flops_per_second", "TFLOP/s"),
    column("spaced_flops_per_second", "Spaced, TFLOP/s"), column("spin_hertz", "SM clock, MHz"),
    column("power_watts", "Board, W"), column("lasting_seconds", "Lasted", show=format.duration),
)  # fmt: skip
EXPLAINED = (
    named("profile", "Implementation"), column("time_ratio", "Time"), column("bytes_ratio", "Bytes"),
    named("why", "Explained by traffic?"),
)  # fmt: skip
TRAFFIC = (
    named("profile", "Implementation"), column("read_bytes", "Read, MB"), column("written_bytes", "Written, MB"),
    column("ratio", "÷ least"), named("state", "State, and why"),
)  # fmt: skip


def limits_fold(shown: Judged, view: DataView) -> Fold | None:
    """None where the run did not measure its ceilings, and on the page of the ceilings themselves."""
    if view.value("limits") is None or shown.plan.name == CEILINGS:
        return None
    cases = [case for case in shown.plan.included_cases if shown.measured_profiles(case.name)]
    rows = [
        row(
            view.at("limits", case.name, "scopes", SCOPE), LIMITS,
            case=Link(case_label(case), f"{case_address(case.name)}#limits"),
            flops_per_byte=view.figure("limits", case.name, "flops_per_byte") if case.flops else None,
        )
        for case in cases
    ]  # fmt: skip
    table = PageTable(label="Limits", kind="cells", heads=LIMITS, rows=rows)
    return Fold(
        id="limits",
        title="Beside this GPU's reference copy and matmul",
        lead=("Held against ", Link("this run's own ceilings", f"../{experiment_folder(CEILINGS)}/index.html"), ": ",
              *reached(view), ". The reference of a case is the "
              "longer of two times: a copy of as many bytes, and its operations at the measured matrix rate. "
              "The per cent in the table of every cell is the reference over the median time. It is no limit: what is "
              "beyond the line is faster than that copy or that matmul. A launch-bound cell has none."),
        panels=_bars(shown, cases, view),
        tables=(table,),
    )  # fmt: skip


def _bars(shown: Judged, cases: Sequence[PlannedCase], view: DataView) -> tuple[tuple[str, Markup], ...]:
    """Per cent of the reference, for all cells that have one."""
    serious = serious_rivals(shown)
    bars_by_case = {
        case: [
            Bar(label=profile.title, series=series(profile.name), value=float(share.value), text=f"{share.text} %")
            for profile in shown.measured_profiles(case.name)
            if (case.op, profile.name) in serious
            and (share := view.figure("limits", case.name, "profiles", profile.name, SCOPE, "attained",
                                        show=format.whole_percent))
        ]
        for case in cases
    }  # fmt: skip
    longest = max((1.0, *(bar.value for drawn in bars_by_case.values() for bar in drawn)))
    titles = {case: f"{case_label(case)}: per cent of the reference" for case in bars_by_case}
    return tuple(
        (case_label(case), bars(f"limit-{case.name}", titles[case], drawn, longest, 1.0))
        for case, drawn in bars_by_case.items()
        if drawn
    )


def case_limits(shown: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """How each implementation compares with the reference of its case, in every scope; None where there is none."""
    if view.value("limits", case.name) is None or not shown.measured_profiles(case.name):
        return None
    scopes = [scope for scope in LIMIT_SCOPES if scope in shown.plan.scopes]
    titles = map(scope_title, scopes)
    heads = [head for title in titles for head in (f"{title}, % of reference", f"{title}, away, µs")]
    limit: list[Words] = []
    for scope in scopes:
        path = ("limits", case.name, "scopes", scope)
        seconds = view.figure(*path, "seconds")
        limit += [(view.value(*path, "limit") or "–",), (seconds, " µs in all") if seconds else (None,)]
    rows = [table_row("The reference", *limit, kind="total")]
    for profile in shown.measured_profiles(case.name):
        cells = [cell for scope in scopes for cell in _attained(shown, case, profile, scope, view)]
        rows.append(table_row(profile.title, *cells))
    columns = (*words("Implementation"), *numbers(*heads))
    table = PageTable(label="Beside the reference", kind="limits stacks", heads=columns, rows=rows)
    ceilings = f"../../index.html#{'ceilings' if shown.plan.name == CEILINGS else 'limits'}"
    lead: Words = ("The reference is the longer of two times: a copy of as many bytes in the same scope, and the "
                   "operations at the measured matrix rate, both of this GPU in this run. A kernel may be faster. ",
                   Link("Ceilings", ceilings), ".")  # fmt: skip
    return Fold(id="limits", title="Beside this GPU's reference copy and matmul", lead=lead, tables=(table,))


def _attained(
    shown: Judged, case: PlannedCase, profile: PlannedProfile, scope: str, view: DataView
) -> tuple[Words, Words]:
    """How much of its reference a cell attained and what is left to gain; or why that cannot be said."""
    path = ("limits", case.name, "profiles", profile.name, scope)
    if not view.value(*path):
        return (below(_why_not(shown.cell(case.name, profile.name), scope)),), ()
    resident = below("cache-resident, ", view.figure(*path, "cache_resident_bytes"), " MB")
    return (view.figure(*path, "attained"), resident), (view.figure(*path, "distance_seconds", show=format.distance),)


def _why_not(cell: Mapping[str, Any], scope: str) -> str:
    """Why a cell has no fraction of its reference in a scope."""
    if scope not in cell["scopes"]:
        return "not measured"
    if why := cell["impossible"].get(scope):
        return str(why)
    return "launch-bound" if cell["launch_bound"] and scope != GRAPH else "no ceiling for as many bytes"


def case_sustained(shown: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """The rate that lasts at the board's power limit, beside that of spaced calls; None where nobody asked."""
    rows = []
    for profile in shown.measured_profiles(case.name):
        path = ("cells", case.name, profile.name, "sustained")
        if lasting := view.value(*path):
            at = view.at(*path)
            seconds = at.figure("seconds") or below(lasting["reason"])
            clock = spin_clock(at.figure("spin_hertz"), view)
            rows.append(row(at, SUSTAINED, profile=profile.title, seconds=seconds, spin_hertz=clock))
    if not rows:
        return None
    lead: Words = (
        "All other times on this page are taken with a pause after each sample. A board that calculates without pauses "
        "may reach its power limit, and then lowers its clock. So each implementation's CUDA graph was also replayed "
        "back to back in one sweep, once each, without a pause except ",
        Constant(("a spin of about 250 µs behind each batch of about 50 ms",)),
        ". No claim is judged by that.",
    )
    caption = (
        "Back to back: the median of batches in the second half of the time, and the clock that a spin behind each "
        "showed. The board's power is what its driver told as the last batch began. Spaced: p50 of the same graph "
        "over all sweeps."
    )
    table = PageTable(label="Calls back to back", kind="stacks", heads=SUSTAINED, rows=rows, caption=(caption,))
    return Fold(id="sustained", title="Back to back", lead=lead, tables=(table,))


def spin_clock(clock: Figure | None, view: DataView) -> Words:
    """What a spin showed; the GPU cannot have run above its largest clock, as far as that is known."""
    hertz = view.value("machine", "sm_clock_hertz")
    largest = view.figure("machine", "sm_clock_hertz", show=format.megahertz)
    above = clock and largest and hertz and float(clock.value) > hertz and clock.text != largest.text
    return (clock, below(above and "above the card's ", largest, " MHz: not credible"))


def case_traffic(shown: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """What each call of a case moved; None where the profiler counted nothing of it."""
    rows = []
    for profile in shown.plan.profiles_of(case):
        path = ("cells", case.name, profile.name, "traffic")
        if traffic := view.value(*path):
            why = (traffic["state"], below(traffic["reason"]))
            rows.append(row(view.at(*path), TRAFFIC, profile=profile.title, state=why))
    if not rows:
        return None
    least: Sentence = (view.figure("cases", case.name, "least_bytes") or "–", " MB")
    caption = ("DRAM bytes of one call, counted over all its kernels; at least ", *least, " must be moved. Below one, "
               "writes were still in the cache when the count ended.")  # fmt: skip
    table = PageTable(label="DRAM traffic against the least", heads=TRAFFIC, rows=rows, caption=caption)
    tables = (table, *_explained(shown, case, view))
    return Fold(id="traffic", title="Bytes moved, against the least possible", tables=tables)


def _explained(shown: Judged, case: PlannedCase, view: DataView) -> Iterator[PageTable]:
    """Each implementation's time and bytes as multiples of the fastest's; none where nothing was counted."""
    if not (by_profile := view.value("explained", case.name)):
        return
    rows = []
    for profile, data in by_profile.items():
        why = "yes" if data["explained"] else f"no: {'; '.join(data['others'])}"
        at = view.at("explained", case.name, profile)
        rows.append(row(at, EXPLAINED, profile=profile_title(shown, profile), why=why))
    fastest = profile_title(shown, next(iter(by_profile.values()))["fastest"])
    caption = (
        f"What the traffic explains: time and bytes as multiples of those of the fastest, {fastest}. The traffic "
        f"explains a time where the two differ by at most {per_cent(EXPLAINED_WITHIN - 1)}; elsewhere the last column "
        "names other counters that differ, which need not be the cause."
    )
    label = "What the traffic explains"
    yield PageTable(label=label, heads=EXPLAINED, rows=rows, caption=(Constant((caption,)),))
