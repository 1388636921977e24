"""Verdicts as a kernel engineer says them. Pure."""

from lab.verdict.judge import EQUIVALENCE_MARGIN, Status, Verdict

TOO_NOISY = "too noisy to call"
FASTER = {
    Status.SUPPORTED: "faster",
    Status.REFUTED: "faster, but by less than claimed",
    Status.INCONCLUSIVE: "faster, perhaps by less than claimed",
}


def in_words(verdict: Verdict) -> str:
    """'faster', 'slower', 'tie', 'not that much faster', 'too close to call', 'too noisy to call', 'wrong result' or
    'not measured'; of a claim about traffic, what holds of the bytes."""
    if verdict.status is Status.NO_EVIDENCE:
        return "not measured"
    if verdict.status is Status.REJECTED:
        return "wrong result" if verdict.reason.startswith("wrong result") else "not credible"
    if verdict.status is Status.RERUN_NOISE:
        return TOO_NOISY
    if verdict.traffic or verdict.speedup is None:
        return {Status.SUPPORTED: "holds", Status.REFUTED: "does not hold"}.get(verdict.status, "too close to call")
    return _speed(verdict.speedup.low, verdict.speedup.high, verdict.status)


def _speed(low: float, high: float, status: Status) -> str:
    """By where the interval lies: a claim to keep up may be supported by a profile that is slower."""
    if low > 1 - EQUIVALENCE_MARGIN and high < 1 + EQUIVALENCE_MARGIN:
        return "tie"
    if high < 1:
        return "slower"
    if low > 1:
        return FASTER[status]
    return {Status.SUPPORTED: "as fast or nearly", Status.REFUTED: "not faster"}.get(status, "too close to call")
