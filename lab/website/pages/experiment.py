"""An experiment's page: its answer, cards and chart here; tables and boundary from the rooms beside."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from lab.definition.asked import can_run, claim_sentence
from lab.definition.plan import PlannedCase, PlannedClaim
from lab.definition.publication import Publication
from lab.verdict.cells import SCOPE
from lab.verdict.explained import EXPLAINED_WITHIN
from lab.verdict.judge import EQUIVALENCE_MARGIN, READING_ORDER
from lab.verdict.statistics import per_cent
from lab.website import format
from lab.website.charts.speedups import Point, speedup_chart, speedup_figure
from lab.website.data.contradicted import contradicting
from lab.website.data.judged import Judged
from lab.website.data.kept import audits
from lab.website.decisions import Decision, Freshness, Standing, freshness
from lab.website.figure import Ledger, Sentence
from lab.website.files.csv_tables import tables_of
from lab.website.files.schemas import with_schema
from lab.website.outputs import Attachment, Document, Gathered, Output
from lab.website.pages.answer import answer, glances
from lab.website.pages.boundary import boundary, boundary_line, provenance
from lab.website.pages.cards import cards
from lab.website.pages.ceilings import ceilings_section
from lab.website.pages.clock_notes import cells_note
from lab.website.pages.clocks import clock_words
from lab.website.pages.correctness import worst_rows
from lab.website.pages.every_cell import every_cell
from lab.website.pages.explained import explained_rows
from lab.website.pages.history import history_section
from lab.website.pages.hypotheses import hypotheses
from lab.website.pages.kernels import is_profiled
from lab.website.pages.labels import case_label, profile_title, series
from lab.website.pages.limits import limits_section
from lab.website.pages.past import finished, other_models, run_link, verdict_link
from lab.website.pages.replication import replication_section
from lab.website.pages.reproduce import live_command
from lab.website.pages.search import search_answer, search_cards, search_cases
from lab.website.pages.tables import claim_view, control_row
from lab.website.pages.traffic import traffic_section
from lab.website.pages.verdict_words import verdict_word
from lab.website.pages.views import Contradiction, DecisionLink, ExperimentPage

ROOT = "../../"  # from an experiment's page to the site's root
MOST_ROWS = 64  # of a chart whose rows are labelled
NO_TRUST: Mapping[str, Any] = MappingProxyType({})
BY_HAND = ("rmsnorm", "layernorm")  # what benchmark-norms computes


def experiment_pages(gathered: Gathered) -> Iterator[Output]:
    """experiments/<slug>/index.html and data.json."""
    for item in gathered.current:
        history = gathered.history(item.plan.name)
        again = audits() if "replication" in item.data else ()
        page = experiment_page(item, gathered.decisions, again, history, gathered.trust)
        data = f"experiments/{page.slug}/data.json"
        yield Document(path=f"experiments/{page.slug}/index.html", template="experiment.html", view={"page": page})
        yield Attachment(path=data, content=with_schema(item.as_json(), data, "experiment"))


def experiment_page(
    shown: Judged,
    decisions: Sequence[tuple[Decision, Sequence[Standing]]],
    publications: Sequence[Publication] = (),
    history: Sequence[Judged] = (),
    trust: Mapping[str, Any] = NO_TRUST,
) -> ExperimentPage:
    """`publications`: those whose cases it may measure again; `history`: its published runs, the oldest first; `trust`:
    what several of these say together, lab.website.pages.pooled."""
    plan, ledger = shown.plan, Ledger(shown.data)
    found = search_cases(shown, ledger)
    points = () if found else speedup_points(shown, ledger)
    labelled = not told_apart(points)
    baseline = profile_title(shown, _chart_baseline(shown)) if points else ""
    resting = tuple(
        decision_link(decision, standings)
        for decision, standings in decisions
        if any(support.experiment == plan.name for support in decision.rests_on)
    )
    return ExperimentPage(
        slug=plan.name,
        title=plan.title,
        question=plan.question,
        project=plan.project,
        focus=plan.focus,
        importance=plan.importance,
        answer=search_answer(shown, ledger) if found else answer(shown, ledger),
        glances=glances(shown, ledger),
        contradictions=tuple(_contradictions(shown, history)),
        other_models=other_models(shown, history, ROOT) if shown.digest else (),
        boundary_line=boundary_line(shown),
        state=_state(shown, ledger),
        date=format.day(shown.measured_utc),
        machine=shown.machine_name,
        on_cpu=shown.on_cpu,
        clock=clock_words(SCOPE, shown.on_cpu),
        run_shape=_run_shape(ledger),
        samples=_samples(ledger),
        digest=shown.digest,
        run_link=run_link(shown, ROOT) if shown.digest else "",
        tables=tables_of(shown),
        verdict_link=verdict_link(shown, ROOT) if shown.digest else "",
        commit=shown.evidence.get("commit", ""),
        policy_version=shown.data["policy_version"],
        cards=search_cards(shown, ledger) if found else cards(shown, ledger),
        chart=speedup_chart(points, EQUIVALENCE_MARGIN, labelled) if points else None,
        chart_baseline=baseline,
        figure_json=speedup_figure(points, f"Speed-up over {baseline}") if points else "",
        searches=found,
        claims=tuple(claim_view(shown, claim, ledger, trust) for claim in _able(shown)),
        need_gpu=tuple((each.name, claim_sentence(each)) for each in plan.claims if each not in _able(shown)),
        explained=explained_rows(shown, ledger),
        explained_within=per_cent(EXPLAINED_WITHIN - 1),
        every_cell=every_cell(shown, ledger),
        cells_note=cells_note(shown, ledger),
        controls=tuple(row for case in plan.included_cases if (row := control_row(shown, case, ledger))),
        limits=limits_section(shown, ledger),
        ceilings=ceilings_section(shown, ledger),
        traffic=traffic_section(shown, ledger),
        replication=replication_section(publications, shown, ledger),
        hypotheses=hypotheses(shown, ledger),
        profiled=is_profiled(shown),
        correctness=worst_rows(shown, ledger),
        self_test=plan.self_test,
        metrics=plan.metrics,
        boundary=boundary(shown, ledger),
        decisions=resting,
        decision_state=_decision_state(resting),
        live_command=live_command(shown),
        local_command=next((_local_command(case) for case in reversed(plan.cases) if case.op in BY_HAND), ""),
        provenance=provenance(shown, ledger),
        history=history_section(shown, history, ROOT) if shown.digest else None,
        data=shown.data,
    )


def _contradictions(shown: Judged, history: Sequence[Judged]) -> Iterator[Contradiction]:
    for claim in shown.plan.claims:
        if run := contradicting(shown, claim.name, history):
            yield Contradiction(
                claim=claim.name,
                text=claim_sentence(claim),
                status=run.data["claims"][claim.name]["status"],
                run_id=run.evidence["run_id"],
                date=finished(run),
                link=verdict_link(run, ROOT),
            )


def decision_link(decision: Decision, found: Sequence[Standing]) -> DecisionLink:
    """Nobody follows a closed decision any more: how fresh it is says nothing."""
    state = "" if decision.closed else str(freshness(found))
    return DecisionLink(slug=decision.slug, title=decision.title, status=decision.status, freshness=state)


def speedup_points(shown: Judged, ledger: Ledger) -> tuple[Point, ...]:
    """Every measured profile against the first baseline of a speed-up, the headlines' before others, case by case.

    Where marks cannot tell the profiles apart, rows must be labelled: then only the cases of the headlines, and none
    where they would still be too many to read.
    """
    baseline = _chart_baseline(shown)
    points = []
    for case in shown.plan.included_cases:
        for profile in shown.measured_profiles(case.name):
            path = ("against", case.name, profile.name, baseline)
            ratio, interval = ledger.ratio(*path), ledger.interval(*path)
            if ratio and interval:
                found = ledger.value(*path)
                points.append(
                    Point(
                        case=case_label(case), profile=profile.title, series=series(profile.name),
                        ratio=found["ratio"], low=found["low"], high=found["high"],
                        text=f"{ratio.text} {interval.text}",
                    )
                )  # fmt: skip
    if told_apart(points):
        return tuple(points)
    headlines = {case for claim in shown.plan.claims if claim.name in shown.plan.headlines for case in claim.cases}
    labels = {case_label(case) for case in shown.plan.cases if case.name in headlines}
    fewer = tuple(point for point in points if point.case in labels)
    return fewer if len(fewer) <= MOST_ROWS else ()


def told_apart(points: Sequence[Point]) -> bool:
    """Whether no two profiles of a case would have the same colour and marker."""
    return len({(point.case, point.series) for point in points}) == len(points)


def _chart_baseline(shown: Judged) -> str:
    """Empty where no claim is about a speed-up."""
    claims = {claim.name: claim for claim in shown.plan.claims}
    ordered = [*(claims[name] for name in shown.plan.headlines), *claims.values()]
    return next((claim.baseline for claim in ordered if claim.measure == "speedup"), "")


def _decision_state(links: Sequence[DecisionLink]) -> str:
    """'2 fresh, 1 drifted': how the decisions that rest on the experiment stand, but those that are closed."""
    found = [link.freshness for link in links if link.freshness]
    return ", ".join(f"{found.count(state)} {state}" for state in Freshness if state in found) or "none rests on it"


def _state(shown: Judged, ledger: Ledger) -> Sentence:
    """How many claims have which verdict."""
    if not shown.evidence:
        return ("no evidence",)
    found = [shown.data["claims"][claim.name]["status"] for claim in _able(shown)]
    told = [f"{found.count(status)} {verdict_word(status)}" for status in READING_ORDER if status in found]
    return (", ".join(told),)


def _able(shown: Judged) -> tuple[PlannedClaim, ...]:
    """The claims of which the device that was measured can speak."""
    device = "cpu" if shown.on_cpu else "cuda"
    return tuple(claim for claim in shown.plan.claims if not shown.on_cpu or can_run(shown.plan, claim, device))


def _run_shape(ledger: Ledger) -> Sentence:
    cases, profiles = ledger.figure("counts", "cases"), ledger.figure("counts", "profiles")
    return (cases or "", " cases / ", profiles or "", " profiles")


def _samples(ledger: Ledger) -> Sentence:
    fewest, most = ledger.figure("evidence", "fewest_sweeps"), ledger.figure("evidence", "most_sweeps")
    rounds, block = ledger.figure("evidence", "rounds"), ledger.figure("evidence", "block")
    if fewest is None or most is None or rounds is None or block is None:
        return ("none",)
    sweeps: Sentence = (fewest,) if fewest.value == most.value else (fewest, " to ", most)
    return (*sweeps, " sweeps × ", rounds, " rounds × up to ", block, " samples")


def _local_command(case: PlannedCase) -> str:
    rows, columns = case.shape[0], case.shape[-1]
    return f".venv/bin/benchmark-norms --backend all --device cuda --rows {rows} --cols {columns} --dtype {case.dtype}"
