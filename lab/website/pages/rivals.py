"""Against whom a claim is made: 65 supported claims say little where half of them beat what nobody would use."""

from collections.abc import Iterable, Mapping

from lab.definition.plan import PlannedClaim
from lab.verdict.judge import Status
from lab.website.data.judged import Judged
from lab.website.pages.verdict_words import TIE, claim_mark, verdict_word

WRITTEN_OUT = "torch-baseline"  # the formula in PyTorch operators, in every experiment
OWN = ("triton", "rule")  # how names of the lab's own implementations begin
KINDS = {
    "faster": "Faster than a rival that users have: torch.compile, PyTorch's own kernel, Liger, QuACK",
    "keeps-up": "Not slower than such a rival by more than a few per cent",
    "written-out": "Faster than the formula written out in PyTorch operators",
    "own": "Against another version of the lab's own kernel",
    "bytes": "Bytes moved to and from memory",
}
OUTCOMES = (str(Status.SUPPORTED), TIE, str(Status.REFUTED), "open")


def kind_of(claim: PlannedClaim) -> str:
    """One of KINDS."""
    if claim.measure == "traffic":
        return "bytes"
    if claim.baseline == WRITTEN_OUT:
        return "written-out"
    if claim.baseline.startswith(OWN):
        return "own"
    return "faster" if claim.threshold > 1 else "keeps-up"


def outcome_of(claim: Mapping[str, object]) -> str:
    """One of OUTCOMES; `claim`: of published data. What is slower is refuted, and what could not be judged is open."""
    status = str(claim["status"])
    if verdict_word(status, claim_mark(claim)) == TIE:
        return TIE
    return status if status in (Status.SUPPORTED, Status.REFUTED) else "open"


def by_rival(item: Judged) -> dict[str, dict[str, int]]:
    """How many claims of each kind came out how; plain JSON values."""
    found: dict[str, dict[str, int]] = {}
    for claim in item.plan.claims:
        counts = found.setdefault(kind_of(claim), dict.fromkeys(OUTCOMES, 0))
        counts[outcome_of(item.data["claims"][claim.name])] += 1
    return found


def together(counts: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Those of several experiments, every kind and outcome of them."""
    found = {kind: dict.fromkeys(OUTCOMES, 0) for kind in KINDS}
    for each in counts:
        for kind, outcomes in each.items():
            for outcome, count in outcomes.items():
                found[kind][outcome] += count
    return found
