"""A published site of made-up evidence with something of everything: measured, refuted, noisy, counted, challenged."""

from pathlib import Path

from factory import ceiling_seconds, plan_of, publish, records_of, write_run
from few_experiments import FEW, only

from lab.definition.catalogue import choose_experiments, load_zoo
from lab.definition.experiment import CEILINGS
from lab.website.site import build_site

SHOWN = (*FEW, "swiglu-fusion", "rope-fusion", "rmsnorm-rope-fusion")  # the last is not measured
FAST = {
    "torch-baseline": 230e-6, "torch-fused": 30e-6, "torch-compile": 23e-6,
    "triton-fused-rmsnorm": 22e-6, "triton-fused-layernorm": 31e-6,
}  # fmt: skip
# Of fewer profiles than the run after it, one of whose profiles fails: the fuller evidence would stand, and be refuted.
SLOW = {"torch-baseline": 230e-6, "torch-fused": 30e-6, "triton-fused-rmsnorm": 33e-6, "triton-fused-layernorm": 31e-6}
ON_CPU = {"torch-baseline": 60e-3, "torch-fused": 90e-3, "torch-compile": 12e-3}
NO_GPU = ("skipped", "needs a CUDA GPU, and this run measures the CPU")
CLAIM = "normalization-fusion/large-triton-rmsnorm-beats-torch-fused"


def rich_site(root: Path) -> Path:
    """Build it under `root`; returns the site."""
    evidence = root / "evidence"
    outcomes = {"torch-compile": ("failed", "RuntimeError: it broke"), "liger": ("wrong", "NaN where 1 was due")}
    pinned = publish(evidence, _run(root, "a-first-look", ["normalization-fusion"], SLOW, outcomes))
    times = FAST | ceiling_seconds()
    publish(evidence, _run(root, "with-counters", ["normalization-fusion", CEILINGS], times, outcomes, profiling=True))
    publish(
        evidence, _run(root, "noisy", ["swiglu-fusion", "rope-fusion"], dict.fromkeys(_profiles(), 30e-6), noise=0.4)
    )
    zoo = [f"zoo-{operator}-1" for operator in load_zoo().operators]
    publish(evidence, _run(root, "shapes", zoo, {"lab": 22e-6, "torch-compile": 23e-6, "torch-matmul": 20e-6}))
    skipped = {name: NO_GPU for name in _profiles() if name not in ON_CPU}
    publish(evidence, _run(root, "without-a-gpu", ["softmax-fusion"], ON_CPU, skipped, device="cpu"))
    _decisions(root / "decisions", pinned)
    with only(SHOWN):
        build_site(root / "site", root / "decisions", evidence)
    return root / "site"


def _run(root, name, experiments, seconds, outcomes=None, *, device="cuda", profiling=False, noise=0.003) -> Path:
    chosen = choose_experiments(experiments)
    plan = plan_of(name, experiments=chosen, device=device, profiling=profiling, sweeps=3, include=())
    return write_run(root / "runs" / name, plan, records_of(plan, seconds, outcomes=outcomes, noise=noise))


def _profiles() -> list[str]:
    return [profile.name for experiment in choose_experiments(["all"]) for profile in experiment.profiles]


def _decisions(folder: Path, pinned: str) -> None:
    """One that holds, one that the evidence contradicts, and one that is due for review."""
    folder.mkdir()
    for number, (title, expects, review_by, more) in enumerate(
        (
            ("Use the fused kernel", "supported", "2027-01-01", ""),
            ("Keep the old kernel", "refuted", "2027-01-01", "acknowledged: We know, and are looking into it.\n"),
            ("Look at it again", "supported", "2026-01-01", ""),
        ),
        start=1,
    ):
        slug = title.lower().replace(" ", "-")
        (folder / f"{number:04}-{slug}.md").write_text(
            f"---\ntitle: {title}\nstatus: accepted\ndate: 2025-12-24\nreview_by: {review_by}\n{more}rests_on:\n"
            f"  - claim: {CLAIM}\n    expects: {expects}\n    acknowledged: supported\n    evidence: {pinned}\n---\n"
            "## Context\n\nIt was slow.\n\n- One way.\n- Another, see `that`.\n\n```\na command --with=options\n```\n"
        )
