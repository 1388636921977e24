"""What a claim requires, in words: its threshold and its scope, added to its own sentence if that lacks them.

requirement(claim) == "faster by 2 % or more"
claim_sentence(claim) == "Triton RMSNorm is faster than F.rms_norm, by 2 % or more."
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from lab.definition.experiment import COLD, Claim
from lab.definition.plan import PlannedClaim, PlannedExperiment

PER_CENT_BELOW = 1.5  # from here on "times as fast" reads better
NUMBER_WORDS = {2.0: "two", 3.0: "three", 4.0: "four", 5.0: "five"}
REVERSED_BELOW = 0.5  # below, the words say how much faster the baseline may be
# Words for each scope other than the headline's, and the words that show that a sentence names the scope already.
IN_SCOPE = {
    "device_warm": ("with inputs cached", ("cached", "warm")),
    "device_dirty": ("after a flush that leaves dirty lines", ("dirty",)),
    "graph": ("in a CUDA graph", ("graph",)),
    "eager": ("as an eager caller waits", ("eager", "Python caller", "kernel by kernel")),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class BytesWords:
    """How sentences speak of a measure that counts bytes."""

    verb: str
    past: str
    least: str  # the bytes of a baseline of None
    unit: str
    about: str  # what an answer speaks of


# By the measure of a claim; all others are about time.
BYTES_WORDS = {
    "traffic": BytesWords(
        verb="moves", past="moved", least="that must be moved", unit="MB of DRAM traffic",
        about="in DRAM traffic",
    ),
    "memory": BytesWords(
        verb="allocates", past="allocated", least="of its results", unit="MB of memory",
        about="in peak memory",
    ),
}  # fmt: skip


class ClaimTerms(Protocol):
    """A claim as written or as planned."""

    @property
    def text(self) -> str: ...
    @property
    def threshold(self) -> float: ...
    @property
    def measure(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def baseline(self) -> object: ...


def requirement(claim: ClaimTerms) -> str:
    """'faster by 2 % or more', 'at most 2 % slower', 'at least 3 times as fast': what the claim requires."""
    threshold = claim.threshold
    if of := BYTES_WORDS.get(claim.measure):
        if claim.baseline:
            return f"the other {of.verb} at least {threshold:.3g} times its bytes"
        return f"at most {1 / threshold:.3g} times the bytes {of.least}"
    if threshold >= PER_CENT_BELOW:
        return f"at least {threshold:.3g} times as fast"
    if threshold > 1:
        return f"faster by {_per_cent(threshold - 1)} or more"
    if threshold == 1:
        return "at least as fast"
    if threshold > REVERSED_BELOW:
        return f"at most {_per_cent(1 - threshold)} slower"
    return f"the other is at most {1 / threshold:.3g} times as fast"


def requirement_over(claim: ClaimTerms, other: str) -> str:
    """'faster than Liger by 2 % or more', 'at most 2 % slower than Liger': the same, with the baseline's name."""
    if claim.measure in BYTES_WORDS:
        return requirement(claim).replace("the other", other, 1) if claim.baseline else requirement(claim)
    words = requirement(claim)
    if words.startswith("faster "):
        return f"faster than {other} {words.removeprefix('faster ')}"
    if words.startswith("the other"):
        return words.replace("the other", other, 1)
    return f"{words} {'than' if words.endswith('slower') else 'as'} {other}"


def claim_sentence(claim: ClaimTerms) -> str:
    """The sentence of a claim with its threshold, and with its scope if that is not the headline's."""
    text = claim.text.rstrip(".")
    if not _tells_threshold(claim):
        text = f"{text}, {_ending(claim)}"
    if claim.measure == "speedup" and claim.scope != COLD:
        words, known = IN_SCOPE[claim.scope]
        text += "" if any(word in text for word in known) else f", {words}"
    return f"{text}."


def can_run(experiment: PlannedExperiment, claim: PlannedClaim, device: str) -> bool:
    """Whether both sides of a claim run on `device`; else no run on it gives evidence for the claim."""
    devices = {profile.name: profile.devices for profile in experiment.profiles}
    counted = claim.measure not in BYTES_WORDS or device == "cuda"  # nothing counts the bytes of a CPU
    return counted and all(device in devices[side] for side in (claim.subject, claim.baseline) if side)


def in_graph(claim: Claim) -> Claim:
    """The same claim for calls that are replayed in a CUDA graph, without the cost of launches."""
    text = f"{claim.text.rstrip('.')}, in a CUDA graph."
    return replace(claim, name=f"{claim.name}-in-graph", text=text, scope="graph")


def _ending(claim: ClaimTerms) -> str:
    words = requirement(claim)
    return words.removeprefix("faster ") if " faster than " in claim.text else words


def _tells_threshold(claim: ClaimTerms) -> bool:
    return any(words in claim.text for words in _numbers(claim))


def _numbers(claim: ClaimTerms) -> Iterator[str]:
    """The ways in which a sentence may write the claim's threshold."""
    threshold = claim.threshold
    if threshold == 1:
        yield requirement(claim)
    if claim.measure == "speedup":
        yield _per_cent(abs(threshold - 1))
    for value in (threshold, 1 / threshold):
        yield from (f"{value:.3g} times", f"{value:.2f} times", f"{NUMBER_WORDS.get(value, value)} times")
        if value == 2 and claim.measure == "speedup":
            yield "twice as fast"


def _per_cent(share: float) -> str:
    return f"{100 * share:.3g} %"
