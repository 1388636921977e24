"""A page for every case of every experiment: who was fastest there, and all that the run shown knows of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace as View
from typing import Any

from lab.definition.claim_words import claim_sentence
from lab.definition.plan import PlannedCase, PlannedProfile
from lab.verdict.cells import EAGER_PENALTY, SCOPE
from lab.verdict.statistics import per_cent
from lab.verdict.widening import session_floor
from lab.website import format
from lab.website.addresses import experiment_folder
from lab.website.data.judged import Judged
from lab.website.data.standing_words import SHARES_FIRST
from lab.website.figure import DataView
from lab.website.outputs import Document, SiteContext
from lab.website.pages.case_answer import case_answer
from lab.website.pages.case_folds import (
    controls_fold,
    distribution_fold,
    draws_fold,
    history_fold,
    medians,
    pairs_fold,
    splits_fold,
)
from lab.website.pages.claims import verdict_cells
from lab.website.pages.clock_notes import HOST_WENT_ON, clock_note, clocks_fold, faster_cold, host_went_on, legend
from lab.website.pages.correctness import case_correctness
from lab.website.pages.hardware import case_limits, case_sustained, case_traffic
from lab.website.pages.kernels import kernels_fold
from lab.website.pages.labels import (
    CPU_SCOPES,
    axes,
    case_label,
    profile_title,
    scope_title,
    scope_words,
)
from lab.website.pages.pooled_verdicts import other_pool_sentence, pooled_sentence
from lab.website.pages.replication import printed_reasons
from lab.website.pages.run_links import run_link
from lab.website.pages.snippet import Snippet, snippet_at
from lab.website.pages.standing import Rival, rivals
from lab.website.table import (
    Constant,
    Fold,
    Head,
    Link,
    PageTable,
    Strong,
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

EXPERIMENT = "../../index.html"  # from a case's page
SHORT_COLD = (
    "Some calls are faster with a cold cache than with a warm one or in a graph: their results stay in L2, and writing "
    "them back to memory is not timed. Warm and in a graph, the write-back of one call falls into the next."
)
MEDIANS = (
    "A ratio is the mean over all sweeps of rounds that were timed one after the other. The median leaves out sweeps "
    "that were slower or faster than most: where the quotient of two medians is another, it stands beside the ratio."
)
HOST_BOUND = (
    f"Host-bound: an eager call takes over {EAGER_PENALTY:g} times as long as one in a CUDA graph; where no eager call "
    "was timed, the host takes longer to enqueue a call than the GPU takes for it."
)
CELLS = (
    named("profile", "Implementation"), column("p50_seconds", "p50, µs"), column("p95_seconds", "p95, µs"),
    column("noise_ratio"), column("between_sweep_spread", "Spread, %", show=format.share),
    column("bytes_per_second", "GB/s"), column("enqueue_seconds", "Host, µs"),
    column("prepare_seconds", "Prepared in, s"), column("peak_memory_bytes", "Memory, MB"),
    column("samples"),
)  # fmt: skip
OF_GPU = ("enqueue_seconds", "peak_memory_bytes")  # columns that a CPU's run has nothing for
GRAPHS_COUNTED = 10  # the schema of records from which on memory holds what CUDA graphs hold
WITH_GRAPHS = "with what CUDA graphs of an implementation's own hold for it"
WITHOUT_GRAPHS = "without what CUDA graphs of an implementation's own hold for it, which this run did not count"
TOKENS = column("tokens_per_second", "Tokens/s")


def sections(
    item: Judged, case: PlannedCase, view: DataView, published: Sequence[Judged], trust: Mapping[str, Any]
) -> tuple[tuple[Fold, ...], tuple[Fold, ...]]:
    """Those on the face, and those behind folds."""
    history = history_fold(item, published, case)
    if not case.included or not item.evidence:
        return tuple(each for each in (_printed(case, view),) if each), (history,) if history else ()
    face = (_cells(item, case, view), _claims(item, case, view, trust), _scopes(item, case, view),
            case_sustained(item, case, view), case_limits(item, case, view), _printed(case, view))  # fmt: skip
    folds = (
        pairs_fold(item, case, view), splits_fold(item, case, view), clocks_fold(item, case, view),
        case_traffic(item, case, view), kernels_fold(item, case, view), case_correctness(item, case, view),
        distribution_fold(item, case, view), draws_fold(item, case, view), controls_fold(item, case, view), history,
    )  # fmt: skip
    return tuple(each for each in face if each), tuple(each for each in folds if each)


def _cells(item: Judged, case: PlannedCase, view: DataView) -> Fold:
    columns = _columns(item, case, view)
    standing = rivals(item, case, view)
    rows = [_cell(item, case, each, standing.get(each.name), columns, view) for each in item.plan.profiles_of(case)]
    clock = scope_words(SCOPE, item.on_cpu).clock
    caption = (
        f"{clock[:1].upper()}{clock[1:]}. Noise "
        "is p95 / p50; spread is the slowest over the fastest sweep, less one. GB/s divides the least traffic by p50."
    )
    if not item.on_cpu:
        caption += (
            " Host is what Python needs to enqueue a call; memory the most that a call takes beyond its inputs, "
            f"{WITH_GRAPHS if item.evidence['schema_of_run'] >= GRAPHS_COUNTED else WITHOUT_GRAPHS}."
        )
    if view.value("cases", case.name, "tokens"):
        caption += " Tokens/s divides the tokens of a call by p50."
    remarks: list[Words] = []
    if any(faster_cold(item, case.name, each.name) for each in item.plan.profiles_of(case)):
        remarks.append((SHORT_COLD,))
    if any(item.cell(case.name, each.name).get("host_bound") for each in item.plan.profiles_of(case)):
        remarks.append((Constant((HOST_BOUND,)),))
    if any(host_went_on(item, case.name, each.name) for each in item.plan.profiles_of(case)):
        remarks.append((f"The times were {HOST_WENT_ON}.",))
    if _any_quotient(case, view):
        remarks.append((MEDIANS,))
    remarks += _power_remark(item, case, view)
    table = PageTable(label="Every implementation", kind="stacks", heads=columns, rows=rows, caption=(caption,))
    return Fold(id="cells", title="Every implementation", tables=(table,), items=tuple(remarks))


def _power_remark(item: Judged, case: PlannedCase, view: DataView) -> Iterator[Words]:
    """Whether the board reached its power limit, and that intervals are wider for it."""
    share = view.figure("gpu", case.name, "power_capped_share", show=per_cent)
    wider = session_floor(case, power_limited=True) > session_floor(case, power_limited=False)
    if share and share.value:
        said = " of the rounds, which may slow the longest kernels most."
        said += " Boards differ more there, so intervals are wider." if wider else ""
        yield ("The GPU reached its power limit in ", share, said)
    elif share is None and wider:
        board = "CPU" if item.on_cpu else "GPU"
        yield (f"Whether the {board} reached its power limit is not known; intervals are as wide as if it had.",)


def _columns(item: Judged, case: PlannedCase, view: DataView) -> tuple[Head, ...]:
    cells = tuple(head for head in CELLS if not (item.on_cpu and head.key in OF_GPU))
    return (*cells, TOKENS) if view.value("cases", case.name, "tokens") else cells


def _cell(
    item: Judged,
    case: PlannedCase,
    profile: PlannedProfile,
    rival: Rival | None,
    columns: Sequence[Head],
    view: DataView,
) -> TableRow:
    cell, at = item.cell(case.name, profile.name), view.at("cells", case.name, profile.name)
    if cell["outcome"] != "measured":
        why: Words = (Strong((cell["outcome"],)), below(cell["reason"]))
        return table_row(profile.title, why, *[()] * (len(columns) - 2))
    word = rival.word if rival and rival.word in SHARES_FIRST else ""
    rate = at.figure("bytes_per_second")
    host = at.figure("enqueue_seconds") if cell.get("enqueue_seconds") else None
    cells = row(
        at, columns,
        profile=(profile.title, below(word)),
        p50_seconds=(
            at.figure("p50_seconds") or below(cell.get("unmeasured", {}).get(SCOPE, "")),
            below(*clock_note(item, case.name, profile.name, view)),
        ),
        bytes_per_second=below("launch-bound") if rate is None and cell.get("launch_bound") else rate,
        tokens_per_second=at.figure("scopes", SCOPE, "tokens_per_second"),
        peak_memory_bytes=(at.figure("peak_memory_bytes"), below(at.figure("graph_memory_bytes"), " in its graph")),
        enqueue_seconds=(host, below(cell.get("host_bound") and "host-bound")),
    )  # fmt: skip
    return replace(cells, kind="best" if word else "")


def _claims(item: Judged, case: PlannedCase, view: DataView, trust: Mapping[str, Any]) -> Fold | None:
    rows = []
    for claim in item.plan.claims:
        path = ("claims", claim.name, "cases", case.name)
        if view.value(*path):
            place = trust, item, claim, case.name
            pooled = pooled_sentence(*place) or other_pool_sentence(*place)
            ratio, interval, verdict = verdict_cells(item, claim, case.name, view, pooled)
            text = Link(claim_sentence(claim), f"{EXPERIMENT}#claim-{claim.name}")
            rows.append(table_row(text, verdict, (*ratio, medians(view, *path)), interval))
    heads = (*words("Claim", "Verdict here"), *numbers("Ratio", "Interval"))
    table = PageTable(label="Claims about this case", kind="claims stacks", labelled=False, heads=heads, rows=rows)
    return Fold(id="claims", title="What is claimed of this case", tables=(table,)) if rows else None


def _scopes(item: Judged, case: PlannedCase, view: DataView) -> Fold | None:
    """The same call with a cold and a warm cache, in a graph, and as an eager caller waits."""
    scopes = [scope for scope in item.plan.scopes if scope in CPU_SCOPES or not item.on_cpu]
    if len(scopes) < 2:
        return None
    rows = []
    for profile in item.measured_profiles(case.name):
        cells: list[Words] = []
        for scope in scopes:
            figure = view.at("cells", case.name, profile.name, "scopes", scope).figure
            p50 = figure("p50_seconds")
            why_not = view.value("cells", case.name, profile.name, "unmeasured", scope) or "not measured"
            tokens = below(figure("tokens_per_second"), " tokens/s")
            cells.append((p50, tokens) if p50 else (below(why_not),))
        rows.append(table_row(profile.title, *cells))
    covers = "; ".join(f"{title}: {clock}" for title, clock in legend(scopes, item.on_cpu))
    table = PageTable(
        label="Times by scope", kind="stacks", rows=rows, caption=("p50 in µs; cells.csv has p95 too.",),
        heads=(*words("Implementation"), *numbers(*map(scope_title, scopes))),
    )  # fmt: skip
    lead: Words = (f"{covers}. No comparison mixes them.",)
    title = "Cold and warm cache" if item.on_cpu else "Cold cache, warm cache, in a CUDA graph, eager"
    return Fold(id="scopes", title=title, lead=lead, tables=(table,))


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


def _any_quotient(case: PlannedCase, view: DataView) -> bool:
    pairs = (view.value("against", case.name) or {}).values()
    return any("quotient_of_medians" in (speedup or {}) for baselines in pairs for speedup in baselines.values())


def case_pages(context: SiteContext) -> Iterator[Document]:
    for item in context.current:
        view = DataView(item.data)
        # A preview has no pages of published runs to lead to.
        published = () if context.label else context.history(item.plan.name)
        for number, case in enumerate(item.plan.cases):
            page = _page(item, case, number, view, published, context.trust)
            folder = f"experiments/{item.plan.name}/cases/{experiment_folder(case.name)}"
            yield Document(path=f"{folder}/index.html", template="case.html", view={"page": page})


def _page(
    item: Judged,
    case: PlannedCase,
    number: int,
    view: DataView,
    published: Sequence[Judged],
    trust: Mapping[str, Any],
) -> View:
    measured = case.included and bool(item.evidence)
    face, folds = sections(item, case, view, published, trust)
    return View(
        item=item, case=case, label=case_label(case), axes=axes(case.op), included=measured,
        description=case.description[:1].upper() + case.description[1:], answer=case_answer(item, case, view),
        facts=tuple(_facts(item, case, measured, view)),
        sections=face, folds=folds, snippets=tuple(_snippets(item, case)),
        before=_neighbour(item.plan.cases, number - 1), after=_neighbour(item.plan.cases, number + 1),
    )  # fmt: skip


def _facts(item: Judged, case: PlannedCase, measured: bool, view: DataView) -> Iterator[tuple[str, Words]]:
    yield "Least traffic", (view.figure("cases", case.name, "least_bytes"), " MB")
    operations = view.figure("cases", case.name, "flops", show=lambda value: format.amount(value, "flops"))
    yield "Operations", (operations if case.flops else "none",)
    if tokens := view.figure("cases", case.name, "tokens"):
        yield "Tokens", (tokens, " a call")
    if case.flops and (intensity := view.figure("limits", case.name, "flops_per_byte")):
        yield "Intensity", (intensity, " FLOP/byte")
    if measured:
        yield "Measured on", (f"{item.machine_name}, {format.day(item.measured_utc)}",)
        run = item.evidence["run_id"]
        yield "Run", (Link(run, run_link(item)) if item.digest else run,)


def _snippets(item: Judged, case: PlannedCase) -> Iterator[tuple[str, Snippet]]:
    """How to call each implementation that was timed, the fastest first."""
    for name in item.places(case.name, SCOPE) if case.included else ():
        if how_to := snippet_at(item.plan.name, name, case):
            yield profile_title(item, name), how_to


def _neighbour(cases: Sequence[PlannedCase], number: int) -> tuple[str, str] | None:
    return (cases[number].name, case_label(cases[number])) if 0 <= number < len(cases) else None
