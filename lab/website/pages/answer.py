"""The answer to an experiment's question in one sentence, and the same claim by claim: found in ten seconds."""

from dataclasses import dataclass

from lab.definition.asked import asked_over, can_run
from lab.definition.experiment import CEILINGS
from lab.definition.plan import PlannedClaim
from lab.verdict.judge import WEIGHED, Status
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.pages.ceilings import reached
from lab.website.pages.labels import TITLES, baseline_title, listed, named, profile_title, scope_told, shape_label
from lab.website.pages.tallies import supported_at
from lab.website.pages.verdict_words import claim_mark, verdict_word

MOST_ON_CPU = 3  # claims, where no headline can run there
MOST_WITH_INTERVALS = 2  # headline claims; of more, the sentence would be too long to read


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """The case with the smallest or the largest ratio of a claim."""

    case: str
    shape: str
    ratio: Figure | None
    interval: Figure | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Glance:
    """One headline claim: its verdict, effect, interval, baseline and scope."""

    claim: str
    subject: str
    baseline: str
    operator: str
    status: str
    mark: str
    claimed: str  # 'faster than fused PyTorch by 2 % or more'
    tally: Sentence
    scope: str
    ends: tuple[End, ...]  # the smallest and the largest ratio, or the only one


def glances(item: Judged, ledger: Ledger) -> tuple[Glance, ...]:
    """The headline claims; none where no run has been published."""
    if not item.evidence:
        return ()
    return tuple(_glance(item, claim, ledger) for claim in leading(item))


def leading(item: Judged) -> tuple[PlannedClaim, ...]:
    """The headline claims. On a CPU those of them that it can run, or else the first claims that it can."""
    claims = {claim.name: claim for claim in item.plan.claims}
    headlines = tuple(claims[name] for name in item.plan.headlines)
    if not item.on_cpu:
        replayed = (claims.get(f"{name}-in-graph") for name in item.plan.headlines)
        return (*headlines, *filter(None, replayed))
    able = [claim for claim in (*headlines, *claims.values()) if can_run(item.plan, claim, "cpu")]
    return tuple(dict.fromkeys(claim for claim in able if claim in headlines) or dict.fromkeys(able))[:MOST_ON_CPU]


def answer(item: Judged, ledger: Ledger) -> Sentence:
    """Where, and how each headline claim came out."""
    if not item.evidence:
        return ("No run of this experiment has been published yet.",)
    claims = {claim.name: claim for claim in item.plan.claims}
    headlines = [claims[name] for name in item.plan.headlines]
    if item.on_cpu:
        headlines = list(leading(item)) or headlines
    scopes = dict.fromkeys(scope_words(claim, item.on_cpu) for claim in headlines)
    if left := _left(item, ledger):
        return (f"{where(item, tuple(scopes))}: ", *left)
    opening = _opening(item, ledger)
    brief = len(headlines) > MOST_WITH_INTERVALS or bool(opening)
    parts: list[Figure | str] = [f"{where(item, tuple(scopes))}: ", *opening]
    for index, claim in enumerate(headlines):
        before = headlines[index - 1] if index else None
        again = before is not None and (before.subject, before.measure) == (claim.subject, claim.measure)
        again = again and not operator_of(item, claim)
        parts.append(", " if again else "; " if index else "")
        parts.extend(_outcome(item, claim, ledger, again=again, brief=brief))
    return (*parts, ".")


def _opening(item: Judged, ledger: Ledger) -> Sentence:
    """What answers the question before any headline claim does: what a GPU reaches, how often a lab's test is right."""
    if item.plan.name == CEILINGS and ledger.value("ceilings"):
        return (*reached(ledger), "; ")
    known, right = ledger.figure("counts", "known"), ledger.figure("counts", "right")
    if known and right:
        return (right, " of the ", known, " claims whose right verdict is known beforehand came out so; ")
    return ()


def _left(item: Judged, ledger: Ledger) -> Sentence:
    """Of published speed-ups that were measured again: what is left of them against the fastest other profile."""
    measured = ledger.value("replication", "measured") or {}
    by_operator: dict[str, dict[str, float]] = {}
    for case in item.plan.cases:
        if "over_rival" in measured.get(case.name, {}):
            found = by_operator.setdefault(TITLES.get(case.op, case.op), {})
            found[case.name] = measured[case.name]["over_rival"]["ratio"]
    parts: list[Figure | str] = []
    for operator, found in by_operator.items():
        ends = dict.fromkeys((min(found, key=lambda case: found[case]), max(found, key=lambda case: found[case])))
        ratios = [ledger.ratio("replication", "measured", case, "over_rival") or "" for case in ends]
        span = [ratios[0], " to ", ratios[1]] if len(ratios) > 1 else ratios
        parts += [
            ", " if parts else "against the fastest other profile the kernels ran ",
            *span,
            f" as fast ({operator})",
        ]
    return (*parts, ".") if parts else ()


def where(item: Judged, scopes: tuple[str, ...]) -> str:
    """'On one NVIDIA H100, in GPU time with nothing cached': of what an answer speaks."""
    return "On this machine's CPU" if item.on_cpu else f"On one {item.machine['gpu']}, {' and '.join(scopes)}"


def scope_words(claim: PlannedClaim, on_cpu: bool) -> str:
    """What of the machine a claim speaks of."""
    return "in DRAM traffic" if claim.measure == "traffic" else scope_told(claim.scope, on_cpu)


def operator_of(item: Judged, claim: PlannedClaim) -> str:
    """What a claim is about, where other headlines compare profiles of the same names at other operators."""
    claims = {each.name: each for each in item.plan.claims}
    told = (*_titles(item, claim), claim.measure)
    alike = [name for name in item.plan.headlines if (*_titles(item, claims[name]), claims[name].measure) == told]
    ops = {case.name: case.op for case in item.plan.cases}
    names = dict.fromkeys(TITLES.get(ops[case], ops[case]) for case in claim.cases)
    return listed(tuple(names)) if len(alike) > 1 else ""


def _titles(item: Judged, claim: PlannedClaim) -> tuple[str, str]:
    """As a sentence names them."""
    return named(profile_title(item, claim.subject)), named(baseline_title(item, claim))


def _outcome(item: Judged, claim: PlannedClaim, ledger: Ledger, *, again: bool, brief: bool) -> Sentence:
    """One headline claim. `again`: the subject was named just before; `brief`: without intervals."""
    path = ("claims", claim.name)
    subject, baseline = _titles(item, claim)
    operator = operator_of(item, claim)
    about = f"for {operator}, " if operator else ""
    ends = _ends(item, claim, ledger)
    if not ends and claim.measure == "traffic":
        if ledger.value(*path, "status") == Status.REJECTED:
            return (f"the claim about the bytes that {subject} moves was rejected",)
        return (f"the bytes that {subject} moves could not be judged",)
    if not ends:
        if ledger.value(*path, "status") == Status.REJECTED:
            return (f"{about}the claim that “{subject}” beats {baseline} was rejected",)
        return (f"{about}{subject} could not be judged against {baseline}",)
    span = _span(ends, brief=brief)
    tally = _tally(claim, ledger)
    verdict: Sentence = (" (", *(tally[:5] if brief else tally), ")")
    if claim.measure == "speedup":
        ran = "" if again else f"{about}{subject} ran "
        return (ran, *span, f" as fast as {baseline}", *verdict)
    if not claim.baseline:
        return (f"of the bytes that {subject} moved, ", *span, " had to be", *verdict)
    return (f"{baseline} moved ", *span, f" the bytes of {subject}", *verdict)


def _tally(claim: PlannedClaim, ledger: Ledger) -> Sentence:
    """'supported at 3 of 3 cases', and 'refuted: supported at 1 of 3 cases'."""
    status = ledger.value("claims", claim.name, "status")
    word = verdict_word(status, claim_mark(ledger.value("claims", claim.name)))
    return ("" if status == Status.SUPPORTED else f"{word}: ", *supported_at(claim.name, ledger))


def _span(ends: tuple[End, ...], *, brief: bool) -> Sentence:
    """'1.18× [1.17, 1.19] to 1.53× [1.51, 1.55]'; one of the two where they read alike."""
    told = [(end.ratio, " ", end.interval) if end.interval and not brief else (end.ratio,) for end in ends]
    texts = [[part if isinstance(part, str) else part.text for part in each if part] for each in told]
    parts: list[Figure | str] = []
    for number, each in enumerate(told if texts[0] != texts[-1] else told[:1]):
        parts += [" to "] if number else []
        parts += [part for part in each if part]
    return tuple(parts)


def _ends(item: Judged, claim: PlannedClaim, ledger: Ledger) -> tuple[End, ...]:
    """The smallest and the largest ratio of the cases that could be judged, or the only one; else of the noisy ones."""
    path = ("claims", claim.name, "cases")
    held = {case: ledger.value(*path, case) or {} for case in claim.cases}
    found = {case: each["ratio"] for case, each in held.items() if each.get("status") in WEIGHED and "ratio" in each}
    if not found:  # what is too noisy to call was measured all the same, and its verdict stands beside it
        noisy = {case: each for case, each in held.items() if each.get("status") == Status.RERUN_NOISE}
        found = {case: each["ratio"] for case, each in noisy.items() if each.get("ratio") is not None}
    if not found:
        return ()
    shapes = {case.name: shape_label(case) for case in item.plan.cases}
    chosen = dict.fromkeys((min(found, key=lambda case: found[case]), max(found, key=lambda case: found[case])))
    return tuple(
        End(
            case=case,
            shape=shapes[case],
            ratio=_ratio(claim, (*path, case), ledger),
            interval=_interval(claim, (*path, case), ledger) if claim.measure == "speedup" else None,
        )
        for case in chosen
    )


def _ratio(claim: PlannedClaim, path: tuple[str, ...], ledger: Ledger) -> Figure | None:
    found = ledger.value(*path)
    if claim.measure == "speedup":
        return ledger.figure(
            *path, "ratio", show=lambda v: format.brief_ratio(v, found["low"], found["high"], claim.threshold)
        )
    return ledger.figure(*path, "ratio", show=format.times if claim.baseline else format.tenths_of_percent)


def _interval(claim: PlannedClaim, path: tuple[str, ...], ledger: Ledger) -> Figure | None:
    high = ledger.value(*path, "high")
    return ledger.figure(*path, "low", show=lambda low: format.brief_interval(low, high, claim.threshold))


def _glance(item: Judged, claim: PlannedClaim, ledger: Ledger) -> Glance:
    subject, baseline = _titles(item, claim)
    ends = _ends(item, claim, ledger)
    return Glance(
        claim=claim.name,
        subject=subject,
        baseline=baseline,
        operator=operator_of(item, claim),
        status=ledger.value("claims", claim.name, "status"),
        mark=claim_mark(ledger.value("claims", claim.name)),
        claimed=asked_over(claim, baseline),
        tally=_tally(claim, ledger),
        scope=scope_words(claim, item.on_cpu),
        ends=ends,
    )
