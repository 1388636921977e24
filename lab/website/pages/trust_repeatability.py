"""Does a verdict hold when a run of one source is repeated on one GPU model? Shares of pairs of runs, and the goals."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from lab.verdict.judge import POLICY_SET_UTC
from lab.verdict.pooled import FEWEST_RUNS
from lab.verdict.repeatability import CHANGED, FLIPPED, HOLDING, ZERO, Kind
from lab.verdict.statistics import CONFIDENCE, per_cent
from lab.website import format
from lab.website.figure import DataView, Sentence, joined, sentence, span
from lab.website.pages.labels import begun
from lab.website.pages.trust_part import Part, trust_part
from lab.website.table import PageTable, Words, below, column, named, row


def share(share: float) -> str:
    """A share in per cent; a count as it is."""
    return per_cent(share, 1) if isinstance(share, float) else str(share)


GPU, CLAIMS, CHANGES = named("gpu", "GPU"), named("claims", "Claims"), column("changed_share", "Changed", show=share)
CHANGED_AT = (
    column("lowest_changed_share", "At least", show=share), column("highest_changed_share", "At most", show=share),
)  # fmt: skip
COUNTED = (
    column("undecided", "Open in both"), column("flipped", "Reversed"),
    column("holding_share", "Interval holds", show=share), column("zero_share", "Within error", show=share),
    column("runs"), column("boards"), column("pairs"),
)  # fmt: skip
REPEATABILITY = (GPU, CLAIMS, CHANGES, *COUNTED)
FILE = (
    GPU, CLAIMS, CHANGES, *CHANGED_AT, *COUNTED, column("sweeps"), column("run_pairs", "Run pairs"),
    named("experiments", "Experiments"), named("which", "Which runs"),
)  # fmt: skip


TOLD_FIRST = (Kind.FIXED, Kind.FRESH)


def repeatability_part(view: DataView) -> Part:
    """Of pairs of runs of one source and sampling on one GPU model. No rows where no run was repeated."""
    repeats = (view.value("repeatability") or {}).items()
    places = [(view.at("repeatability", number), pairs) for number, pairs in repeats]
    rows = (row(at, REPEATABILITY, claims=pairs["kind"], changed_share=_changed_share(at)) for at, pairs in places)
    whole = [
        row(
            at, FILE, claims=pairs["kind"], experiments=", ".join(each["experiment"] for each in pairs["experiments"]),
            which=", ".join(pairs["run_ids"]),
        )
        for at, pairs in places
    ]  # fmt: skip
    part = trust_part(
        "repeatability", "Does a verdict hold when the run is repeated?",
        "Each row compares all pairs of runs of one source on one GPU model that take the same samples in a sweep, "
        "claim by claim and case by case. "
        f"Below “changed” stands the {per_cent(CONFIDENCE)} interval (Wilson's) of that share. It takes pairs as "
        "independent. Those of the same two runs are not, so the share can be off by more. "
        "“Open in both”: from “too noisy to call” to “undecided” or back, so that neither run decides; these count as "
        "changed. “Reversed”: from “holds” to “does not hold” or back. "
        "“Interval holds”: one run's interval holds the other run's speed-up, which a right 95 % interval does in "
        "about 87 % of pairs, because the other run errs too. “Within error”: the two speed-ups agree "
        "within both intervals. "
        "The GPU's ceilings come with every run, have most of the pairs and hardly differ, so they are counted apart. "
        "Claims about compiled code are, too: a compiler chooses among its kernels by measuring. In one run "
        "its few choices may be alike, so that the interval is narrow and the verdict clear; in the next they differ. "
        "Code that is compiled gets nine sweeps today, each with a compilation of its own. Runs of before "
        "24 November 2026 had five, and a run that was ended early has fewer. The CSV file names the runs. "
        f"The goals: at most {per_cent(CHANGED)} changed, none reversed, at least {per_cent(HOLDING)} and "
        f"{per_cent(ZERO)}.",
        REPEATABILITY, rows,
    )  # fmt: skip
    csv = PageTable(label=part["title"], heads=FILE, rows=whole)
    return part | {"csv": csv, "notes": (*_newer_pairs(view), *_which_pairs(view), *_repeats_that_lack(view))}


def _changed_share(at: DataView) -> Words:
    """The share, and its interval below it."""
    least, most = (at.figure(head.key, show=share) for head in CHANGED_AT)
    return at.figure(CHANGES.key, show=share), below(*span(least, most))


def how_many_changed(view: DataView) -> Sentence:
    """In how many pairs of runs of one source the verdicts differ, by GPU model, of kernels as users run them today;
    empty where no run was repeated."""
    every = view.value("repeatability") or {}
    repeats = {number: pairs for number, pairs in every.items() if pairs["kind"] in TOLD_FIRST}
    if not repeats:
        return ()
    by_kind: dict[str, list[Sentence]] = {}
    for number, pairs in repeats.items():
        counted = sentence(view.at("repeatability", number), "{changed} of {pairs}")
        by_kind.setdefault(pairs["kind"], []).append((*counted, f" on {_model(pairs)}"))
    kinds = [(f" {begun(kind)}: ", *joined(counted, ", "), ".") for kind, counted in by_kind.items()]
    reversed_too = any(pairs["flipped"] for pairs in every.values())
    none = "" if reversed_too else " None of these went from “holds” to “does not hold” or back."
    opening = "When a run was repeated from the same source, this many verdicts on a claim at a case changed."
    return (opening, *chain.from_iterable(kinds), none, " ")


def _model(pairs: Mapping[str, Any]) -> str:
    """Without its maker: 'H100 80GB HBM3'."""
    return str(pairs["gpu"]).removeprefix("NVIDIA ")


def _newer_pairs(view: DataView) -> Iterator[Sentence]:
    """The same counts for pairs of which a run is newer than the policy; nothing where no older pair is published."""
    newer = [
        (view.at("repeatability", number, "newer"), pairs)
        for number, pairs in (view.value("repeatability") or {}).items()
        if pairs["newer"] and pairs["kind"] != Kind.CEILINGS
    ]
    if any(pairs["pairs"] > pairs["newer"]["pairs"] for _, pairs in newer):
        yield (
            "The policy's values were chosen with older runs in sight. A better test is a pair of which at least one "
            f"run was begun after {format.minute(POLICY_SET_UTC)}, when they were set. ",
            *joined(
                (
                    (
                        f"{pairs['gpu']}, {pairs['kind']}: ",
                        *sentence(at, "verdicts differ in {changed} of {pairs} such pairs, "),
                        at.figure("holding_share", show=share), " of the intervals hold the other speed-up, ",
                        at.figure("zero_share", show=share), " of the pairs agree within error",
                    )
                    for at, pairs in newer
                ),
                "; ",
            ),
            ".",
        )  # fmt: skip


def _which_pairs(view: DataView) -> Iterator[Sentence]:
    """In how many pairs the verdicts differ, and which pairs of runs these are of."""
    for number, pairs in (view.value("repeatability") or {}).items():
        at = view.at("repeatability", number)
        said = "in {changed} of {pairs} pairs the verdicts differ. Pairs of runs: "
        yield (
            f"{pairs['gpu']}, {pairs['kind']}: ",
            *sentence(at, said),
            *joined(
                (
                    sentence(at.at("experiments", str(place)), f"{each['experiment']} {{run_pairs}}")
                    for place, each in enumerate(pairs["experiments"])
                ),
                ", ",
            ),
            ".",
        )


def _repeats_that_lack(view: DataView) -> Iterator[Sentence]:
    """Where an experiment lacks three runs of one source, by GPU model."""
    sources = view.value("runs_of_one_source") or {}
    for gpu in dict.fromkeys(each["gpu"] for each in sources.values()):
        here = {number: each for number, each in sources.items() if each["gpu"] == gpu}
        once = [each for each in here.values() if each["most"] == 1]
        told = joined(
            (
                sentence(view.at("runs_of_one_source", number), f"{each['experiment']} has {{most}}")
                for number, each in here.items()
                if each["most"] > 1
            ),
            ", ",
        )
        rest = f"{'no other experiment' if told else 'no experiment'} has more than one"
        met = all(each["most"] >= FEWEST_RUNS for each in here.values())
        wish = f"Goal on {gpu}: {FEWEST_RUNS} runs of one source of every experiment. "
        left_out = " Tests of the lab itself and samples of the zoo are left out."
        others = ("; " if told else "", rest) if once else ()
        yield (wish, "It is met: " if met else "It is not met: ", *told, *others, ".", left_out)


# Of pairs of runs: what is counted, the goal, whether it is missed, and in words what the figure is a share of.
GOALS: tuple[tuple[str, str, Callable[[float], bool], str], ...] = (
    ("holding_share", f"at least {per_cent(HOLDING)}", lambda share: share < HOLDING,
     "of the intervals hold the other run's speed-up"),
    ("zero_share", f"at least {per_cent(ZERO)}", lambda share: share < ZERO, "of the pairs agree within error"),
    ("changed_share", f"at most {per_cent(CHANGED)}", lambda share: share > CHANGED, "of the verdicts changed"),
    ("flipped", f"{FLIPPED:g}", lambda count: count > FLIPPED, "reversed"),
)  # fmt: skip


def missed_goals(view: DataView) -> tuple[Sentence, ...]:
    """Every goal that repeats miss, by GPU model; none where no run was repeated."""
    missing: list[Sentence] = []
    for number, pairs in (view.value("repeatability") or {}).items():
        who = f"{begun(pairs['kind'])} on {_model(pairs)}"
        for key, goal, missed, said in GOALS:
            if missed(pairs[key]):
                value = view.figure("repeatability", number, key, show=share) or "–"
                missing.append((f"{who}: ", value, f" {said}, goal {goal}"))
    return tuple(missing)
