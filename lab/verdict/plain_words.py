"""Verdicts as a kernel engineer says them, in the terminal and on every page. Pure.

The rules' own names ("supported", "rerun-noise", …) stay in data, in CSV files and in decision records.
"""

from collections.abc import Iterable

from lab.verdict.judge import CLEAR_AS_SHOWN, EQUIVALENCE_MARGIN, RANKED, Status, Verdict, is_tie

FASTER, TIE, SLOWER = "faster", "tie", "slower"
HOLDS, FAILS, MIXED = "holds", "does not hold", "mixed"
UNDECIDED, TOO_NOISY = "undecided", "too noisy to call"
NOT_MEASURED, WRONG, NOT_CREDIBLE = "not measured", "wrong result", "not credible"
RIVAL_WRONG = "rival's result wrong"
# Of a verdict whose interval is not at hand, and of a claim whose cases differ.
STATUS_WORDS = {
    Status.SUPPORTED: HOLDS,
    Status.REFUTED: FAILS,
    Status.INCONCLUSIVE: UNDECIDED,
    Status.RERUN_NOISE: TOO_NOISY,
    Status.NO_EVIDENCE: NOT_MEASURED,
    Status.REJECTED: NOT_CREDIBLE,
}
ABOVE_PARITY = {
    Status.SUPPORTED: FASTER,
    Status.REFUTED: "faster, but less than claimed",
    Status.INCONCLUSIVE: "faster, size unclear",
}
ACROSS_PARITY = {Status.SUPPORTED: "about as fast", Status.REFUTED: "not faster"}
BELOW_PARITY = {Status.SUPPORTED: "slower, within the claim", Status.INCONCLUSIVE: "slower, size unclear"}
# A mark of a refuted claim that says what is so instead.
INSTEAD = {"equivalent": TIE, "regressed": SLOWER}
ABOVE_A_TIE = 1 + EQUIVALENCE_MARGIN  # a threshold that no tie reaches


def in_words(verdict: Verdict) -> str:
    speedup = verdict.speedup if not verdict.compared_bytes else None
    low, high = (speedup.low, speedup.high) if speedup else (None, None)
    return case_word(verdict.status, low, high, verdict.mark, verdict.reason)


def case_word(
    status: Status, low: float | None = None, high: float | None = None, mark: str = "", reason: str = ""
) -> str:
    """The word for one claim at one case. `low` and `high` bound the speed-up; None of a claim about bytes."""
    if status is Status.REJECTED and reason.startswith(WRONG):
        return RIVAL_WRONG if reason.startswith(f"{WRONG} of the baseline") else WRONG
    if status in (Status.REJECTED, Status.NO_EVIDENCE, Status.RERUN_NOISE):
        return STATUS_WORDS[status]
    if status is Status.INCONCLUSIVE and reason.startswith(CLEAR_AS_SHOWN):
        return UNDECIDED  # of a claim to keep up, say, whose interval is above 1: its size is not what is unclear
    if low is None or high is None:
        instead = (word for each, word in INSTEAD.items() if each in mark.split(", "))
        return next(instead, STATUS_WORDS[status])
    if RANKED in mark.split(", ") and low <= 1 <= high:
        return STATUS_WORDS[status]
    return _speed(status, low, high)


def _speed(status: Status, low: float, high: float) -> str:
    """By where the interval lies: a claim to keep up may be supported by an implementation that is slower."""
    if is_tie(low, high):
        return UNDECIDED if status is Status.INCONCLUSIVE else TIE
    if high < 1:
        return BELOW_PARITY.get(status, SLOWER)
    if low > 1:
        return ABOVE_PARITY[status]
    return ACROSS_PARITY.get(status, UNDECIDED)


def claim_word(status: Status, cases: Iterable[tuple[Status, str]], threshold: float = ABOVE_A_TIE) -> str:
    """The word for a claim over its cases, given by status and word: theirs where all agree on both.

    A tie that a claim to be as fast does not allow is no answer to it: such a claim does not hold.
    """
    pairs = list(cases)
    statuses, words = {each for each, _ in pairs}, {word for _, word in pairs}
    if len(words) == 1 and not _hides_that_it_fails(status, statuses, words, threshold):
        return words.pop()
    if status is Status.REFUTED:
        return MIXED if Status.SUPPORTED in statuses else FAILS
    if status is Status.REJECTED:
        return next((word for word in (WRONG, RIVAL_WRONG) if word in words), NOT_CREDIBLE)
    return STATUS_WORDS[status]


def _hides_that_it_fails(status: Status, statuses: set[Status], words: set[str], threshold: float) -> bool:
    """Whether the one word of all cases reads as if a refuted claim held."""
    return status is Status.REFUTED and (len(statuses) > 1 or (words == {TIE} and threshold <= 1))
