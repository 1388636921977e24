"""The words that a reader needs, a plain sentence or two each; constants in them come from the code that uses them."""

from collections.abc import Iterator
from dataclasses import dataclass

from lab.definition.experiment import USUAL_THRESHOLD
from lab.definition.plan import make_protocol
from lab.verdict import judge, roofline, statistics, widening
from lab.verdict.statistics import per_cent
from lab.website.outputs import Document, SiteContext

PROTOCOL = make_protocol(judge.FULL_SWEEPS, "cuda")


@dataclass(frozen=True, slots=True)
class Term:
    anchor: str
    name: str
    text: str


CHAPTERS = {
    "What is asked": (
        Term("experiment", "experiment", "One question about GPU kernels, with the cases, implementations and claims "
             "that answer it."),
        Term("case", "case", "One problem: an operator, a shape, a data type and flags. It says what to compute, "
             "never how."),
        Term("profile", "implementation", "One way to compute a case: PyTorch, torch.compile, a library, or a kernel "
             "of the lab. Data files and the command line call it a profile."),
        Term("cell", "cell", "One implementation at one case, the smallest thing that is measured."),
        Term("claim", "claim", "A sentence that is written down before measuring: A is at least so many times as fast "
             f"as B at these cases. Where nothing else is said, {USUAL_THRESHOLD:.2f}×."),
    ),
    "What the clock covers": (
        Term("device_cold", "device_cold", "GPU time of one call with nothing in the cache. Most claims are about it."),
        Term("device_warm", "device_warm", "GPU time of one call with the inputs in the cache, as far as they fit."),
        Term("graph", "graph", "One call's share of a replayed CUDA graph, where no launch waits for Python."),
        Term("eager", "eager", "How long a Python caller waits for the result of one call."),
        Term("device_dirty", "device_dirty", "GPU time after a flush that only writes, so that its write-back falls "
             "into the timed window, as with do_bench and nvbench. Shown for comparison."),
    ),
    "How it is measured": (
        Term("sweep", "sweep", "A fresh process that measures every cell once, in random order. Results are repeated "
             "over sweeps, because calls within one process are not independent."),
        Term("run", "run", f"Several sweeps on one machine, usually {PROTOCOL.sweeps}. A published run never changes; "
             "its address is its digest."),
        Term("control", "control", "One implementation timed twice under two names. Any difference is the lab's own "
             "error."),
        Term("p50", "p50 and p95", "The time that 50 or 95 of 100 calls do not exceed. When p95 is "
             f"{judge.NOISY_RATIO:.2f} times p50 or more, the verdict is marked noisy."),
    ),
    "What the numbers say": (
        Term("speed-up", "speed-up", "How many times as fast A is as B. Above 1, A is faster."),
        Term("interval", "interval", f"The range that should hold the speed-up on {per_cent(statistics.CONFIDENCE)} of "
             "other boards of the same GPU model. How often it did is measured."),
        Term("floor", "launch floor", "The time of a kernel that does nothing. No launch takes less; a cell below "
             f"{roofline.NEAR_FLOOR:g} times that is launch-bound, and its bandwidth says little."),
        Term("ceiling", "ceiling", "The most this GPU was measured to do, in copying and in matrix products."),
        Term("least-traffic", "least traffic", "The bytes that any implementation of a case must read and write."),
    ),
    "What is concluded": (
        Term("verdict", "verdict", "What the rules say of a claim at a case. Code decides it, not a person."),
        Term("tie", "tie", f"The whole interval is within {per_cent(judge.EQUIVALENCE_MARGIN)} of 1."),
        Term("too-noisy", "too noisy to call", "Undecided, and the interval is wider than "
             f"±{per_cent(judge.WIDEST_HALF_WIDTH)} or too many samples were lost."),
        Term("one-draw", "one draw", "torch.compile chose its kernels once for the whole run. Another compilation may "
             f"be {per_cent(widening.DRAW_SPREAD)} faster or slower."),
        Term("boundary", "evidence boundary", "What the evidence holds for, what it does not show, and what was left "
             "out."),
        Term("freshness", "freshness", "Whether the claims under a decision still say what it was based on. Computed "
             "from newer evidence of the same GPU model."),
    ),
}  # fmt: skip


def glossary_pages(context: SiteContext) -> Iterator[Document]:
    yield Document(path="glossary/index.html", template="glossary.html", view={"chapters": CHAPTERS})
