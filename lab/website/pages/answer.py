"""The answer to an experiment's question in one sentence, and the same claim by claim: found in ten seconds."""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from types import SimpleNamespace as View

from lab.definition.claim_words import BYTES_WORDS, can_run, requirement_over
from lab.definition.experiment import CEILINGS
from lab.definition.plan import PlannedCase, PlannedClaim
from lab.verdict.cells import SCOPE
from lab.verdict.judge import WITH_USABLE_RATIO, Status
from lab.verdict.plain_words import FAILS
from lab.verdict.validity import can_fail
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import DataView, Figure, Sentence, extremes, joined, span
from lab.website.pages import labels
from lab.website.pages.ceilings import reached, reference_of
from lab.website.pages.labels import (
    baseline_title,
    begun,
    case_label,
    listed,
    profile_title,
    shape_label,
    titled,
    within_sentence,
)
from lab.website.verdict_words import claim_mark, claim_word

MOST_ROWS = 6  # of claims that are seen at once on a phone; else those in CUDA graphs stand among the other claims
MOST_ON_CPU = 3  # claims, where no headline can run there


def glances(item: Judged, view: DataView) -> tuple[View, ...]:
    """The headline claims; none where no run has been published."""
    if not item.evidence:
        return ()
    answered = {scope_words(claim, item.on_cpu) for claim in item.plan.claims if claim.name in item.plan.headlines}
    return tuple(
        _glance(item, claim, view, with_scope={scope_words(claim, item.on_cpu)} != answered) for claim in leading(item)
    )


def leading(item: Judged) -> tuple[PlannedClaim, ...]:
    """The headline claims. On a CPU those of them that it can run, or else the first claims that it can."""
    claims = {claim.name: claim for claim in item.plan.claims}
    headlines = tuple(map(item.plan.claim, item.plan.headlines))
    if not item.on_cpu:
        replayed = filter(None, (claims.get(f"{name}-in-graph") for name in item.plan.headlines))
        both = tuple(dict.fromkeys((*headlines, *replayed)))
        return both if len(both) <= MOST_ROWS else headlines
    able = [claim for claim in (*headlines, *claims.values()) if can_run(item.plan, claim, "cpu")]
    return tuple(dict.fromkeys(claim for claim in able if claim in headlines) or dict.fromkeys(able))[:MOST_ON_CPU]


def answer(item: Judged, view: DataView) -> Sentence:
    """How each headline claim came out, and then where that was measured; intervals stand in the table below it."""
    if not item.evidence:
        return ("No run of this experiment has been published yet.",)
    headlines = (item.on_cpu and leading(item)) or tuple(map(item.plan.claim, item.plan.headlines))
    timed = dict.fromkeys(scope_words(claim, item.on_cpu) for claim in headlines if claim.measure == "speedup")
    scopes = dict.fromkeys(scope_words(claim, item.on_cpu) for claim in headlines)
    apart = len(timed) > 1  # each clause says of which calls it is
    place = f". Measured {where(item, tuple(scope for scope in scopes if not (apart and scope in timed)))}."
    if shorter := _left(item, view) or _opening(item, view):
        return (*_begun(list(shorter)), place)
    parts: list[Figure | str] = []
    for index, claim in enumerate(headlines):
        before = headlines[index - 1] if index else None
        again = before is not None and (before.subject, before.measure) == (claim.subject, claim.measure)
        parts.append(", " if again and not operator_of(item, claim) else "; " if index else "")
        parts.extend(_outcome(item, claim, view, again=again, apart=apart))
    return (*_begun(parts), place)


def _begun(parts: Sequence[Figure | str]) -> Sentence:
    """With a capital, but for what is written small: 'torch.compile'."""
    said = [part for part in parts if part != ""]
    first = said[0]
    return (begun(first) if isinstance(first, str) else first, *said[1:])


def _opening(item: Judged, view: DataView) -> Sentence:
    """What answers better than headline claims do: what a GPU reaches, how often the lab's test is right."""
    if item.plan.name == CEILINGS and view.value("ceilings"):
        return reached(view)
    known, right, left_out = (view.figure("counts", key) for key in ("known_judged", "right", "known_left_out"))
    if not (known and right and left_out):
        return ()
    claims = " claims whose right verdict is known beforehand"
    if not left_out.value:
        return (right, " of the ", known, f"{claims} came out so")
    verb = "needs" if left_out.value == 1 else "need"
    why = f" more {verb} a {'GPU' if item.on_cpu else 'CPU'}" if _needs_another(item) else " more could not be judged"
    return (right, " of the ", known, f"{claims} and that were measured came out so; ", left_out, why)


def _needs_another(item: Judged) -> bool:
    """Whether every claim of known verdict that this run could not judge is about what cannot run on its device."""
    device = "cpu" if item.on_cpu else "cuda"
    open_ = (
        claim
        for claim in item.plan.claims
        if can_fail(claim.expected) and item.data["claims"][claim.name]["status"] == Status.NO_EVIDENCE
    )
    return not any(can_run(item.plan, claim, device) for claim in open_)


def _left(item: Judged, view: DataView) -> Sentence:
    """Of published speed-ups that were measured again: what is left of them against the fastest other profile, which
    may be one of the lab's own."""
    measured = view.value("replication", "measured") or {}
    by_operator: dict[str, list[Figure | None]] = {}
    for case in item.plan.cases:
        if case.name in measured:
            ratio = view.figure("replication", "measured", case.name, "over_rival", "ratio")
            by_operator.setdefault(titled(case.op), []).append(ratio)
    told: list[Sentence] = [
        (*extremes(figures), f" ({operator})" if len(by_operator) > 1 else "")
        for operator, figures in by_operator.items()
    ]
    if not told:
        return ()
    who, rivals = (
        "; ".join(dict.fromkeys(profile_title(item, each[side]["profile"]) for each in measured.values()))
        for side in ("subject", "rival")
    )
    return (f"{who} ran ", *joined(told, ", "), f" as fast as the fastest other implementation ({rivals})")


def where(item: Judged, scopes: tuple[str, ...]) -> str:
    """'on one NVIDIA H100, in cold-cache GPU time': of what an answer speaks."""
    told = f", {' and '.join(scopes)}" if scopes else ""
    return "on this machine's CPU" if item.on_cpu else f"on one {item.machine['gpu']}{told}"


def scope_words(claim: PlannedClaim, on_cpu: bool) -> str:
    """What of the machine a claim speaks of."""
    of = BYTES_WORDS.get(claim.measure)
    return of.about if of else labels.scope_words(claim.scope, on_cpu).told


def operator_of(item: Judged, claim: PlannedClaim) -> str:
    """What a claim is about, where other headlines compare profiles of the same names at other operators."""
    headlines = map(item.plan.claim, item.plan.headlines)
    compared = (*_titles(item, claim), claim.measure)
    alike = [each for each in headlines if (*_titles(item, each), each.measure) == compared]
    if len(alike) < 2:
        return ""
    cases = [item.plan.case(name) for name in claim.cases]
    rest = (each for each in alike if each is not claim and each.scope == claim.scope)
    others = {item.plan.case(name).op for each in rest for name in each.cases}
    if len(cases) == 1 and cases[0].op in others:
        return case_label(cases[0])
    titles = dict.fromkeys(titled(case.op) for case in cases)
    # 'Matmul' also stands for 'Matmul, default launch'.
    return listed([title for title in titles if not any(title.startswith(f"{each},") for each in titles)])


def _titles(item: Judged, claim: PlannedClaim) -> tuple[str, str]:
    """As a sentence names them."""
    return within_sentence(profile_title(item, claim.subject)), within_sentence(baseline_title(item, claim))


def _outcome(item: Judged, claim: PlannedClaim, view: DataView, *, again: bool, apart: bool) -> Sentence:
    """One headline claim. `again`: the subject was named just before. `apart`: others are of other calls."""
    path = ("claims", claim.name)
    subject, baseline = _titles(item, claim)
    operator = operator_of(item, claim)
    about = f"for {operator}, " if operator else ""
    ends = _ends(claim, view)
    if not ends and (of := BYTES_WORDS.get(claim.measure)):
        if view.value(*path, "status") == Status.REJECTED:
            return (f"the claim about the bytes that {subject} {of.verb} was rejected",)
        return (f"the bytes that {subject} {of.verb} could not be judged",)
    if not ends:
        if view.value(*path, "status") == Status.REJECTED:
            return (f"{about}the claim that “{subject}” beats {baseline} was rejected",)
        return (f"{about}{subject} could not be judged against {baseline}",)
    span, verdict = _span(ends), _tally(item, claim, view)
    if claim.measure == "speedup":
        ran = about if again else f"{about}{subject} ran "
        calls = f" {scope_words(claim, item.on_cpu)}" if apart else ""
        return (ran, *span, f" as fast as {baseline}{calls}", *verdict)
    of = BYTES_WORDS[claim.measure]
    if not claim.baseline:
        needed = "had to be" if claim.measure == "traffic" else "were its results"
        return (f"of the bytes that {subject} {of.past}, ", *span, f" {needed}", *verdict)
    return (f"{baseline} {of.past} ", *span, f" the bytes of {subject}", *verdict)


def _only_case(item: Judged, claim: PlannedClaim, view: DataView) -> Sentence:
    """' (RMSNorm 16×3584 bf16)', the shape alone where the operator was named, and neither where both were; how the
    subject compares with the run's reference there; and '; another case: 1.02×' where the same two were measured at
    further cases. Of the case and the reference nothing where the headline before was about this subject there too."""
    cases = view.value("claims", claim.name, "cases")
    (name,) = (name for name, each in cases.items() if each["status"] in WITH_USABLE_RATIO)
    case = item.plan.case(name)
    named = operator_of(item, claim)
    label: Sentence = () if named == case_label(case) else (shape_label(case) if named else case_label(case),)
    beside = _beside_reference(case, claim, view) if claim.measure == "speedup" else ()
    left_out = _ratios_left_out(item, claim, view)
    lead = "another case: " if len(left_out) == 1 else "other cases: "
    others: Sentence = (lead, *extremes(left_out)) if left_out else ()
    here = () if _follows(item, claim) else joined(filter(None, (label, beside)), ", ")
    return (" (", *joined(filter(None, (here, others)), "; "), ")") if here or others else ()


def _beside_reference(case: PlannedCase, claim: PlannedClaim, view: DataView) -> Sentence:
    """'at 92 % of this run's reference copy'. No limit of the hardware: a kernel may be faster."""
    limits = view.at("limits", case.name)
    attained = limits.figure("profiles", claim.subject, claim.scope, "attained", show=format.whole_percent)
    kind = reference_of(case, limits.value("scopes", claim.scope, "limit") or "")
    return ("at ", attained, f" % of this run's reference {kind}") if attained else ()


def _follows(item: Judged, claim: PlannedClaim) -> bool:
    """Whether the headline before this one is about the same subject, cases and scope."""
    index = item.plan.headlines.index(claim.name) if claim.name in item.plan.headlines else 0
    if not index:
        return False
    before = item.plan.claim(item.plan.headlines[index - 1])
    return (before.subject, before.cases, before.scope) == (claim.subject, claim.cases, claim.scope)


def _tally(item: Judged, claim: PlannedClaim, view: DataView) -> Sentence:
    """' at all 3 cases claimed (another: 1.02×)', or the only one; ' (tie; holds at 1 of 3)', and
    ' (too noisy to call)' where at none."""
    claim_data = view.value("claims", claim.name)
    supported, judged, ties = (view.figure("claims", claim.name, name) for name in ("supported", "judged", "ties"))
    if claim_data["status"] == Status.SUPPORTED and supported and judged and supported.value == judged.value:
        if judged.value == 1:
            return _only_case(item, claim, view)
        everywhere: Sentence = (" at all ", judged, " cases") if judged.value != 2 else (" at both cases",)
        return (*everywhere, *_elsewhere(item, claim, view))
    undecided = claim_data["status"] in (Status.INCONCLUSIVE, Status.RERUN_NOISE)
    if undecided and not (supported and supported.value):
        return (f" ({claim_word(claim_data)})",)
    word = claim_word(claim_data)
    # What is undecided at the others, or not measured, stands in the table below.
    told = undecided or claim_data["status"] in (Status.SUPPORTED, Status.NO_EVIDENCE) or word == FAILS
    lead = "" if told else f"{word}; "
    words: Sentence = (f" ({lead}holds at ", supported or "none", " of ", judged or "none")
    return (*words, ", a tie at ", ties, ")") if ties and ties.value and supported and judged else (*words, ")")


def _elsewhere(item: Judged, claim: PlannedClaim, view: DataView) -> Sentence:
    """' claimed (others: 1.02× to 1.10×)': where the same two were measured at further cases, what they reach there
    beyond the claim's own range."""
    found = _ratios_left_out(item, claim, view)
    if not found:
        return ()
    of_claim = view.value("claims", claim.name)
    if all(of_claim["smallest_ratio"] <= ratio.value <= of_claim["largest_ratio"] for ratio in found):
        return (" claimed",)
    return (" claimed (another: " if len(found) == 1 else " claimed (others: ", *extremes(found), ")")


def _ratios_left_out(item: Judged, claim: PlannedClaim, view: DataView) -> list[Figure]:
    """Of the same two at further cases that no headline before this one has named. Only times with a cold cache are
    compared at every case."""
    if claim.measure != "speedup" or claim.scope != SCOPE:
        return []
    pair = claim.subject, claim.baseline
    before = takewhile(lambda each: each is not claim, map(item.plan.claim, item.plan.headlines))
    alike = [each for each in before if (each.subject, each.baseline, each.scope) == (*pair, SCOPE)]
    told = {case.name for each in alike for case in _left_out(item, each)}
    cases = [case for case in _left_out(item, claim) if case.name not in told]
    ratios = (view.ratio("against", case.name, *pair, brief=True) for case in cases)
    return [ratio for ratio in ratios if ratio]


def _left_out(item: Judged, claim: PlannedClaim) -> Iterator[PlannedCase]:
    """The cases of no headline about the same two. Where the sentence names operators, those of them and of their
    variants: 'Matmul, other shapes' of 'Matmul'."""
    headlines = map(item.plan.claim, item.plan.headlines)
    alike = (each for each in headlines if (each.subject, each.baseline) == (claim.subject, claim.baseline))
    told = {*claim.cases, *(name for each in alike for name in each.cases)}
    named = {titled(item.plan.case(name).op) for name in claim.cases} if operator_of(item, claim) else {""}
    for case in item.plan.included_cases:
        if case.name not in told and any(f"{titled(case.op)},".startswith(title and f"{title},") for title in named):
            yield case


def _span(ends: tuple[View, ...]) -> Sentence:
    return span(ends[0].ratio, ends[-1].ratio)


def _ends(claim: PlannedClaim, view: DataView) -> tuple[View, ...]:
    """The smallest and the largest ratio of the cases that were measured, or the only one, also of those that are too
    noisy to call: at how many the claim holds stands beside them."""
    ratios = _ratios(claim, view)
    if not ratios:
        return ()
    chosen = dict.fromkeys(end(ratios, key=lambda case: ratios[case]) for end in (min, max))
    return tuple(_of_case(claim, case, view) for case in chosen)


def _ratios(claim: PlannedClaim, view: DataView) -> dict[str, float]:
    return {
        case: each["ratio"]
        for case, each in view.value("claims", claim.name, "cases").items()
        if each.get("ratio") is not None and each["status"] in (*WITH_USABLE_RATIO, Status.RERUN_NOISE)
    }


def _of_case(claim: PlannedClaim, case: str, view: DataView) -> View:
    path = ("claims", claim.name, "cases", case)
    if claim.measure == "speedup":
        return View(ratio=view.ratio(*path, brief=True))
    show = format.times if claim.baseline else format.tenths_of_percent
    return View(ratio=view.figure(*path, "ratio", show=show))


def _interval(claim: PlannedClaim, view: DataView) -> Sentence:
    """That of the only case, or from the lowest to the highest end of those of all cases."""
    path = ("claims", claim.name, "cases")
    if claim.measure != "speedup":
        return ()
    intervals = {case: figure for case in _ratios(claim, view) if (figure := view.interval(*path, case, brief=True))}
    if len(intervals) < 2:
        return tuple(intervals.values())
    lowest, highest = (
        view.end(
            claim.name, "cases", choose(intervals, key=lambda case: view.value(*path, case, end)), end, show=_brief
        )
        for choose, end in ((min, "low"), (max, "high"))
    )
    return (lowest or "–", " to ", highest or "–")


def _brief(ratio: float) -> str:
    return format.significant(ratio, 3)


def _glance(item: Judged, claim: PlannedClaim, view: DataView, *, with_scope: bool) -> View:
    """`with_scope`: the sentence above names other calls than the claim's, or more."""
    subject, baseline = _titles(item, claim)
    ends = _ends(claim, view)
    scope = scope_words(claim, item.on_cpu)
    claimed = requirement_over(claim, baseline)
    return View(
        claim=claim.name, subject=subject, operator=operator_of(item, claim),
        status=view.value("claims", claim.name, "status"), word=claim_word(view.value("claims", claim.name)),
        mark=claim_mark(view.value("claims", claim.name)), claimed=f"{claimed}, {scope}" if with_scope else claimed,
        ratios=_span(ends) if ends else (), interval=_interval(claim, view), holds=_holds_at(claim, view),
        everywhere=view.value("claims", claim.name, "supported") == view.value("claims", claim.name, "judged"),
    )  # fmt: skip


def _holds_at(claim: PlannedClaim, view: DataView) -> Sentence:
    """'4 of 5'; nothing where no case was judged."""
    supported, judged = (view.figure("claims", claim.name, name) for name in ("supported", "judged"))
    return (supported or "0", " of ", judged) if judged else ()
