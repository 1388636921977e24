"""An experiment's page: on its face answer, contest, every cell, claims and boundary; the rest behind folds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace as View
from typing import Any

from lab.definition.claim_words import can_run, claim_sentence
from lab.definition.plan import PlannedCase, PlannedClaim
from lab.definition.publication import Publication
from lab.project import project
from lab.verdict.cells import SCOPE
from lab.verdict.judge import FEWEST_SWEEPS, Status
from lab.website import format
from lab.website.addresses import SITE
from lab.website.data.contradicted import contradicting
from lab.website.data.differences import PROVENANCE
from lab.website.data.judged import Judged
from lab.website.data.judged_cache import audits
from lab.website.decisions import Decision, Freshness, SupportStanding, freshness
from lab.website.figure import DataView, Figure, joined
from lab.website.files.csv_tables import tables_of
from lab.website.files.schemas import with_schema
from lab.website.outputs import Attachment, Document, Output, SiteContext
from lab.website.pages.answer import answer, glances, leading
from lab.website.pages.boundary import boundary, boundary_line
from lab.website.pages.breakdown import breakdown_fold
from lab.website.pages.ceilings import ceilings_section, ladder_fold
from lab.website.pages.claims import by_case, claim_view, claim_words, claims_table
from lab.website.pages.clock_notes import cells_note
from lab.website.pages.contest import contest
from lab.website.pages.correctness import correctness_fold
from lab.website.pages.every_cell import every_cell
from lab.website.pages.expectations import expectations_fold
from lab.website.pages.hardware import limits_fold
from lab.website.pages.history import chart_on_face, history_folds
from lab.website.pages.labels import axes_of, case_label, environment, evidence_facts, scope_words
from lab.website.pages.measure_again import live_command
from lab.website.pages.peak_memory import memory_fold
from lab.website.pages.pooled_verdicts import NO_TRUST
from lab.website.pages.replication import replication_section
from lab.website.pages.run_links import finished, other_models, run_link, verdict_link
from lab.website.pages.speed_changes import latest_changes
from lab.website.pages.standing import standings
from lab.website.pages.tuning import search_answer, search_cases
from lab.website.table import Constant, Fold, Link, VerdictChip, Words, below, plain
from lab.website.verdict_words import samples_taken, status_counts, verdict_counts, verdict_word

MOST_CLAIMS = 14  # on the face; of more, those that nobody need look at twice go behind a fold
BY_HAND = ("rmsnorm", "layernorm")  # what benchmark-norms computes


def experiment_pages(context: SiteContext) -> Iterator[Output]:
    """experiments/<slug>/index.html and data.json."""
    for item in context.current:
        history = context.history(item.plan.name)
        again = audits() if "replication" in item.data else ()
        page = experiment_page(item, context.decisions, again, history, context.trust)
        folder = f"experiments/{item.plan.name}"
        view = {"page": page, "said": said(page)}
        yield Document(path=f"{folder}/index.html", template="experiment.html", view=view)
        data = f"{folder}/data.json"
        yield Attachment(path=data, content=with_schema(item.as_json(), data, "experiment"))


def said(page: View) -> Iterator[tuple[str, str]]:
    """The texts that state its results, and where they stand."""
    yield "answer", plain(page.answer)
    if page.contest:
        yield "contest", plain(page.contest.weak)
        yield from (("contest", plain(gain)) for each in page.contest.crossovers for gain in each.gains)
        yield from (("contest", f"{each.label}: {plain(each.best)}") for each in page.contest.panels)
    for case in page.searches:
        yield "search", f"{case.label}: {plain(case.outcome)}"


def experiment_page(
    shown: Judged,
    decisions: Sequence[tuple[Decision, Sequence[SupportStanding]]],
    publications: Sequence[Publication] = (),
    history: Sequence[Judged] = (),
    trust: Mapping[str, Any] = NO_TRUST,
) -> View:
    """`publications`: those whose cases it may measure again; `history`: its published runs, the oldest first; `trust`:
    what several of these say together, lab.website.pages.pooled_verdicts."""
    plan, view = shown.plan, DataView(shown.data)
    searches, standing = search_cases(shown, view), standings(shown, view)
    claims = tuple(claim_view(shown, claim, view, trust) for claim in _able(shown))
    on_face, folded = _split(shown, claims)
    resting = tuple(
        decision_link(decision, supports)
        for decision, supports in decisions
        if any(support.experiment == plan.name for support in decision.rests_on)
    )
    timeline, past = chart_on_face(tuple(history_folds(shown, history)) if shown.digest else ())
    return View(
        item=shown,
        answer=search_answer(shown, view) if searches else answer(shown, view), glances=glances(shown, view),
        contradictions=tuple(_contradictions(shown, history)), changes=tuple(latest_changes(shown, history)),
        other_models=_other_models(shown, history) if shown.digest else (), boundary_line=boundary_line(shown),
        facts=tuple(_facts(shown, resting, view)), clock=scope_words(SCOPE, shown.on_cpu).clock,
        contest=None if searches else contest(shown, standing, view),
        every_cell=every_cell(shown, standing, view) if shown.evidence else None,
        cells_note=cells_note(shown, view), axes=axes_of(case.op for case in plan.cases),
        unmeasured=tuple(
            (case.name, case_label(case)) for case in plan.cases if not (case.included and shown.evidence)
        ),
        ceilings=ceilings_section(shown, view), searches=searches, claims=claims,
        claims_shown=claims_table(on_face, "Claims") if on_face and shown.evidence else None,
        claims_planned=() if shown.evidence else tuple((each.name, claim_words(each)) for each in claims),
        claims_folded=claims_table(folded, "Further claims") if folded and shown.evidence else None,
        need_gpu=tuple((each.name, claim_sentence(each)) for each in plan.claims if each not in _able(shown)),
        folds=tuple(_folds(shown, claims, view)) if shown.evidence else (expectations_fold(shown, view),),
        replication=replication_section(publications, shown, view),
        timeline=timeline, history=past,
        boundary=boundary(shown, view), decisions=resting, live_command=live_command(shown),
        local_command=next((_local_command(case) for case in reversed(plan.cases) if _has_command(case)), ""),
        provenance=_provenance(shown, view) if shown.evidence else (),
        verdict_link=verdict_link(shown) if shown.digest else "", tables=tables_of(shown),
    )  # fmt: skip


def _split(shown: Judged, claims: tuple[View, ...]) -> tuple[tuple[View, ...], tuple[View, ...]]:
    """Claims on the face, and those behind a fold. What failed is never folded.

    Measured headlines stand above all; until a run is published, nothing stands there, and they are among the others.
    """
    above = {claim.name for claim in leading(shown)} if shown.evidence else set()
    others = [claim for claim in claims if claim.name not in above]
    if len(others) <= MOST_CLAIMS:
        return tuple(others), ()
    return tuple(c for c in others if not c.as_expected), tuple(c for c in others if c.as_expected)


def _folds(shown: Judged, claims: tuple[View, ...], view: DataView) -> Iterator[Fold]:
    if section := breakdown_fold(shown, view):
        yield section
    if table := by_case(claims):
        yield Fold(id="case-by-case", title="Every verdict, case by case", tables=(table,))
    yield expectations_fold(shown, view)
    for fold in (ladder_fold, memory_fold, limits_fold, correctness_fold):
        if section := fold(shown, view):
            yield section


def _other_models(shown: Judged, history: Sequence[Judged]) -> Words:
    return joined(((Link(run.machine_name, verdict_link(run)),) for run in other_models(shown, history)), "; ")


def _contradictions(shown: Judged, history: Sequence[Judged]) -> Iterator[Words]:
    for claim in shown.plan.claims:
        if run := contradicting(shown, claim.name, history):
            status, link = run.data["claims"][claim.name]["status"], f"{verdict_link(run)}#claim-{claim.name}"
            where = Link(f"run {run.evidence['run_id']} of {finished(run)}", link)
            yield (
                Link(claim_sentence(claim), f"#claim-{claim.name}"),
                " Verdict: ",
                VerdictChip(status),
                " in ",
                where,
                ".",
            )


def decision_link(decision: Decision, supports: Sequence[SupportStanding]) -> View:
    """Nobody follows a closed decision any more: how fresh it is says nothing."""
    state = "" if decision.closed else str(freshness(supports))
    return View(slug=decision.slug, title=decision.title, status=decision.status, freshness=state)


def _facts(shown: Judged, resting: Sequence[View], view: DataView) -> Iterator[tuple[str, Words]]:
    """What a reader asks before the figures: when, on what, of how many samples, with which verdicts."""
    if shown.evidence:
        yield "Measured on", (shown.machine_name, below(format.day(shown.measured_utc)))
        yield "Samples", samples_taken(view)
    yield "Claims", (_state(shown), below(*_too_few_sweeps(shown, view)))
    yield "Decisions", (Link(decision_state(resting), "#decisions"),)
    if shown.digest:
        yield "Run", (f"{shown.evidence['run_id']}, ", Link(shown.digest[:12], run_link(shown)))
        yield "Judged by", (Link(f"rules, version {shown.data['policy_version']}", f"{SITE}policy/index.html"),)


def decision_state(links: Sequence[View]) -> str:
    """'2 evidence holds, 1 review due, 1 superseded': how the decisions that rest on it stand; of one that is closed,
    its status."""
    states = [link.freshness for link in links if link.freshness]
    open_ = [f"{states.count(state)} {verdict_word(state)}" for state in Freshness if state in states]
    closed = Counter(link.status for link in links if not link.freshness)
    ended = [f"{count} {status}" for status, count in closed.items()]
    if ended and not open_:
        return f"none in force ({', '.join(ended)})"
    return ", ".join(open_ + ended) or "none rests on it"


def _state(shown: Judged) -> str:
    """How many claims have which verdict."""
    if not shown.evidence:
        return "no evidence"
    counted = ", ".join(f"{each.word} {each.claims}{each.also}" for each in status_counts([verdict_counts(shown)]))
    return counted + (" (CPU)" if shown.on_cpu else "")


def _too_few_sweeps(shown: Judged, view: DataView) -> Words:
    """Why a run as short as that judges no speed-up; what is rejected, and bytes, are judged all the same."""
    unmeasured = any(claim["status"] == Status.NO_EVIDENCE for claim in shown.data["claims"].values())
    if not (shown.evidence and unmeasured and 0 < view.value("evidence", "most_sweeps") < FEWEST_SWEEPS):
        return ()
    needed = Constant((str(FEWEST_SWEEPS),))
    return ("a speed-up needs ", needed, " sweeps; this run has ", view.figure("evidence", "most_sweeps"))


def _able(shown: Judged) -> tuple[PlannedClaim, ...]:
    """The claims of which the device that was measured can speak."""
    device = "cpu" if shown.on_cpu else "cuda"
    return tuple(claim for claim in shown.plan.claims if not shown.on_cpu or can_run(shown.plan, claim, device))


def _provenance(shown: Judged, view: DataView) -> list[tuple[str, Figure]]:
    ended = {"cut_short": "Cut short"} if shown.evidence["cut_short"] else {}
    return [*evidence_facts(view, PROVENANCE | ended), *environment(shown, view)]


def _has_command(case: PlannedCase) -> bool:
    """Operators of these names in a project of somebody else may be others."""
    return case.op in BY_HAND and project().is_the_labs_own


def _local_command(case: PlannedCase) -> str:
    rows, columns = case.shape[0], case.shape[-1]
    return f".venv/bin/benchmark-norms --backend all --device cuda --rows {rows} --cols {columns} --dtype {case.dtype}"
