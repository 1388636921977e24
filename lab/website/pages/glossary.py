"""The words of this site, a plain sentence each; constants in them come from the code that uses them."""

from collections.abc import Iterator
from dataclasses import dataclass

from lab.definition.experiment import CEILINGS, USUAL_THRESHOLD
from lab.definition.plan import make_protocol
from lab.verdict import cells, judge, judge_traffic, roofline, statistics
from lab.verdict.statistics import per_cent
from lab.website.data.outline import Outline
from lab.website.outputs import Document, Gathered
from lab.website.pages.outline import outlines

PROTOCOL = make_protocol(judge.FULL_SWEEPS, "cuda")
POLICY = ("policy/index.html", "the rules")
DECISIONS = ("decisions/index.html", "the decisions")
TRUST = ("trust/index.html", "how far to trust the lab")
CEILINGS_PAGE = f"experiments/{CEILINGS}/index.html"
EXPERIMENTS = ("index.html#experiments", "all experiments")
# Where the first experiment that was measured uses the word; "" stands for its page.
EXAMPLE = ("", "")
LIMITS = ("#limits", "how far from the limit")
BOUNDARY = ("#boundary", "a boundary")


@dataclass(frozen=True, slots=True)
class Term:
    """`used`: an address relative to the site's root, or a part of an experiment's page; and what to call it."""

    anchor: str
    name: str
    text: str
    used: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Chapter:
    title: str
    terms: tuple[Term, ...]


QUESTIONS = Chapter("What is asked", (
    Term("experiment", "experiment", "One question about GPU kernels, with the cases, profiles and claims that are to "
         "answer it.", EXPERIMENTS),
    Term("case", "case", "One problem to compute: an operator, a shape, a data type and flags, and nothing about how.",
         ("search/cases/index.html", "all cases")),
    Term("profile", "profile", "One implementation of a case's operator: PyTorch's own, a compiler's, a library's or "
         "the lab's.", ("search/profiles/index.html", "all profiles")),
    Term("cell", "cell", "One profile at one case: the smallest thing that is measured.", LIMITS),
    Term("claim", "claim", "A sentence that is registered before anything is measured: this profile is at least so "
         f"many times as fast as that one, at these cases and in this scope; where nothing else is said, "
         f"{USUAL_THRESHOLD:.2f}×.", ("search/claims/index.html", "all claims")),
    Term("headline", "headline claim", "A claim that the answer of an experiment is about; the others stand below it.",
         EXAMPLE),
    Term("baseline", "baseline", "The profile that a claim compares with.", EXAMPLE),
    Term("self-test", "self-test", "An experiment on the lab itself, where the right answer is known beforehand and "
         "a sound instrument must find it.", ("index.html#self-tests", "the self-tests")),
))  # fmt: skip
SCOPES = Chapter("What the clock covers", (
    Term("scope", "scope", "What a time covers; times of two scopes are never compared.", LIMITS),
    Term("device_cold", "device_cold", "Time on the GPU with nothing in its cache: the scope of most claims.",
         LIMITS),
    Term("device_warm", "device_warm", "Time on the GPU with the inputs still in its cache, as far as they fit.",
         LIMITS),
    Term("graph", "graph", "A call's share of a replayed CUDA graph, in which no launch waits for Python.",
         LIMITS),
    Term("eager", "eager", "What a caller waits who launches from Python and waits for the result.", LIMITS),
    Term("device_dirty", "device_dirty", "Time on the GPU after a flush that only writes: its lines go back to memory "
         "while the call is timed, as in do_bench and nvbench. Shown for comparison.", LIMITS),
))  # fmt: skip
MEASURING = Chapter("How it is measured", (
    Term("sample", "sample", "One timed call.", POLICY),
    Term("block", "block", f"Up to {PROTOCOL.block} samples of one profile in a row.", POLICY),
    Term("round", "round", "One block of every profile of a case, in random order, so that drift strikes all alike.",
         POLICY),
    Term("sweep", "sweep", f"One fresh process that measures every cell once, in up to {PROTOCOL.rounds} rounds; "
         "sweeps are what a result is repeated over.", POLICY),
    Term("run", "run", f"Several sweeps of one plan on one machine, {PROTOCOL.sweeps} where nothing else is said.",
         POLICY),
    Term("control", "control", "A profile that is timed a second time under another name: any difference it shows is "
         "the lab's own error.", TRUST),
    Term("canary", "canary", "A fixed piece of work between cases, which tells whether the machine is still what it "
         "was.", TRUST),
    Term("spoiled-round", "spoiled round", "A round that is left out for all profiles alike, because the GPU's state "
         "or a canary was off; no time of a profile is looked at for it.", POLICY),
))  # fmt: skip
NUMBERS = Chapter("How it is summed up", (
    Term("p50", "p50 and p95", "The time that half of the samples, or 95 in 100 of them, do not exceed.", EXAMPLE),
    Term("noise-ratio", "noise ratio", f"p95 over p50; from {judge.NOISY_RATIO:.2f} on verdicts on a cell are marked "
         "noisy.", POLICY),
    Term("speed-up", "speed-up", "How many times as fast the subject of a claim is as its baseline: above 1 it is "
         "faster.", EXAMPLE),
    Term("interval", "interval", f"In {100 * statistics.CONFIDENCE:.0f} of 100 repeats by another careful person it "
         "holds the speed-up of their board of the same model; how often it did is measured.", TRUST),
    Term("floor", "floor", "The time of a kernel that does nothing: no launch takes less.", LIMITS),
    Term("ceiling", "ceiling", "What this GPU was measured to do at most, in copying and in multiplying; other "
         "results are held against it.", (CEILINGS_PAGE, "the measured ceilings")),
    Term("launch-bound", "launch-bound", f"Said of a cell whose time is below {roofline.NEAR_FLOOR:g} times the floor: "
         "it tells of the launch and not of the memory.", LIMITS),
    Term("host-bound", "host-bound", "Said of a cell whose eager caller waits for Python rather than for the GPU: the "
         f"call takes more than {cells.EAGER_PENALTY:g} times its share of a replayed graph.", LIMITS),
    Term("cache-resident", "cache-resident", "Said of a time in which not all of the data can have crossed the memory, "
         "because part of it lay in the cache.", LIMITS),
    Term("least-traffic", "least traffic", "The bytes that any implementation of a case must read and write, the same "
         "for every profile.", LIMITS),
    Term("attained", "attained", "How near a cell came to the ceiling: the least time that the ceiling allows, over "
         "p50.", LIMITS),
))  # fmt: skip
VERDICTS = Chapter("What is said of it", (
    Term("verdict", "verdict", "What a rule, and no person, says of a claim at a case, and of the claim as a whole.",
         POLICY),
    Term("supported", "supported", "The evidence shows what the claim says, at every case of it.", POLICY),
    Term("refuted", "refuted", "The evidence shows that the claim does not hold at one case at least; it stays on the "
         "page.", POLICY),
    Term("inconclusive", "inconclusive", "The interval holds the threshold, so that the evidence shows neither; more "
         "sweeps may.", POLICY),
    Term("rerun-noise", "too noisy to call", "The rules call it rerun-noise: neither supported nor refuted, with an "
         f"interval wider than ±{per_cent(judge.WIDEST_HALF_WIDTH)}, or too many samples lost.", POLICY),
    Term("no-evidence", "not measured", "The rules call it no-evidence: nothing could be judged, for it was not "
         f"measured, failed, or has fewer than {judge.FEWEST_SWEEPS} sweeps.", POLICY),
    Term("rejected", "rejected, wrong result", "The result was wrong, or faster than physics allows.", POLICY),
    Term("equivalent", "tie", "The rules call it equivalent: a claim is refuted, and the whole interval lies within "
         f"{per_cent(judge.EQUIVALENCE_MARGIN)} of parity, so that the two are equally fast.", POLICY),
    Term("regressed", "slower", "The rules call it regressed: a claim is refuted, and the whole interval lies below "
         "that.", POLICY),
    Term("noisy", "noisy", f"A mark: samples of one side scatter, p95 over p50 is {judge.NOISY_RATIO:.2f} or more, or "
         "the control's interval is wide.", POLICY),
    Term("provisional", "provisional", f"A mark of a verdict that rests on fewer than {judge.FULL_SWEEPS} sweeps, or "
         "lacks a control.", POLICY),
    Term("one-draw", "one draw of the compiler", "A mark of a verdict on a profile that is compiled or autotuned "
         "at run time, where one choice served all sweeps: another choice may be faster or slower.", POLICY),
    Term("size-imprecise", "size imprecise", "A mark of a decided verdict whose interval is wider than "
         f"±{per_cent(judge.WIDEST_HALF_WIDTH)}.", POLICY),
    Term("traffic-claim", "claim about traffic", "A claim on the bytes that a call moves to and from DRAM, as the "
         f"profiler counts them, within {per_cent(judge_traffic.TRAFFIC_MARGIN)}.", ("policy/index.html#traffic",
         "its rules")),
))  # fmt: skip
EVIDENCE = Chapter("What it is worth", (
    Term("evidence", "evidence", "A run that was promoted for publication: it is never changed, and its digest is its "
         "address.", EXAMPLE),
    Term("digest", "digest", "The beginning of the SHA-256 of what was published; other content would have another.",
         EXAMPLE),
    Term("boundary", "evidence boundary", "What the evidence holds for, what it does not show, what was not measured, "
         "and what was left out and why.", BOUNDARY),
    Term("decision", "decision", "A record of what people chose, which rests on claims.", DECISIONS),
    Term("freshness", "freshness", "Whether the claims under a decision still say what it was decided on; the worst "
         "of them counts, and no person sets it.", DECISIONS),
    Term("fresh", "fresh", "Each claim still has the expected verdict, at a value that has not moved.", DECISIONS),
    Term("drifted", "drifted", "The verdict holds, but the interval lies apart from the one decided on.", DECISIONS),
    Term("expired", "expired", "The decision is past its review date, or the evidence is of software that it was not "
         "made for.", DECISIONS),
    Term("challenged", "challenged", "A claim no longer has the expected verdict: somebody must acknowledge it before "
         "anything is published.", DECISIONS),
    Term("orphaned", "orphaned", "No experiment makes the claim any more; that too must be acknowledged.", DECISIONS),
    Term("preview", "preview", "Pages of one run as they would look if it were published.", EXPERIMENTS),
))  # fmt: skip
CHAPTERS = (QUESTIONS, SCOPES, MEASURING, NUMBERS, VERDICTS, EVIDENCE)


def glossary_pages(gathered: Gathered) -> Iterator[Document]:
    """Its links lead only where there is a page: a preview has neither trust nor every experiment."""
    current = outlines(gathered).current
    absent = set() if any(item.self_test for item in current) else {"index.html#self-tests"}
    if CEILINGS not in {item.name for item in current}:
        absent.add(CEILINGS_PAGE)
    if gathered.label:
        absent.add(TRUST[0])
    example = next((item for item in current if item.measured_utc and not item.self_test), None)
    chapters = [Chapter(held.title, tuple(_linked(term, absent, example) for term in held.terms)) for held in CHAPTERS]
    yield Document(path="glossary/index.html", template="glossary.html", view={"chapters": chapters})


def _linked(term: Term, absent: set[str], example: Outline | None) -> Term:
    address, label = term.used
    if address and not address.startswith("#"):
        used = EXPERIMENTS if address in absent else term.used
    elif example is None:
        used = EXPERIMENTS
    else:
        title = example.title
        used = (f"experiments/{example.name}/index.html{address}", f"{label}, in {title}" if label else title)
    return Term(term.anchor, term.name, term.text, used)
