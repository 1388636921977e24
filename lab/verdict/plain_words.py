"""Verdicts and thresholds as a kernel engineer says them. Pure."""

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


def threshold_in_words(measure: str, threshold: float) -> str:
    """'faster by 2 % or more', 'slower by 2 % at most', '5.3 times as fast or more'; of traffic '2 times the bytes'."""
    if measure == "traffic":
        return (
            f"{threshold:g} times the bytes or more" if threshold >= 1 else f"a share of {100 * threshold:g} % or more"
        )
    if threshold >= 2:
        return f"{threshold:g} times as fast or more"
    change = f"{round(100 * abs(threshold - 1), 2):g} %"
    return (
        f"faster by {change} or more"
        if threshold > 1
        else f"slower by {change} at most"
        if threshold < 1
        else "as fast or faster"
    )
