"""How much does the launch configuration of a memory-bound kernel matter, and does the rule choose well?"""

import dataclasses

from torch import Tensor

from experiments.normalization_fusion import RMSNORM
from lab import Case, Experiment, Profile, Tunable, beats_the_rule, launched_as, launched_by_rule
from lab.kernels.launch import Configuration
from lab.kernels.rmsnorm import RMSNORM_TUNING, rmsnorm
from lab.kernels.rows import norm_rule

# Rows too wide for the registers of one program are launched differently, so they have other configurations as rivals.
RMSNORM_WIDE = dataclasses.replace(RMSNORM, name="rmsnorm-wide")
HELD = Tunable(operator=RMSNORM, entry=rmsnorm, tuning=RMSNORM_TUNING)
TILED = dataclasses.replace(HELD, operator=RMSNORM_WIDE)

CASES = (
    Case(
        operator=RMSNORM, shape=(4096, 4096), dtype="float16",
        description="rows as wide as the hidden state of an 8-billion-parameter model",
    ),
    Case(
        operator=RMSNORM, shape=(2048, 896), dtype="bfloat16",
        description="rows of a small model, no power of two wide: the launch weighs most where little is moved",
    ),
    Case(
        operator=RMSNORM_WIDE, shape=(1024, 131072), dtype="bfloat16",
        description="rows too wide for one program: held by a cluster, or some tiles held and the others read twice",
    ),
)  # fmt: skip


def around_the_rule(name: str, title: str, rows: int = 1, warps: float = 1) -> Profile:
    """A profile with the rule's configuration, but ROWS times `rows` and warps times `warps`."""

    def choose(x: Tensor) -> Configuration:
        rule = norm_rule(tuple(x.shape), x.itemsize)
        num_warps = min(32, max(1, int(rule.num_warps * warps)))
        return Configuration.of(ROWS=rows * rule["ROWS"], BLOCK=rule["BLOCK"], num_warps=num_warps)

    return launched_as(name, title, HELD, choose)


def half_in_registers(x: Tensor) -> Configuration:
    """Two tiles a row: the first stays in registers, the second is read twice."""
    rule = norm_rule(tuple(x.shape), x.itemsize)
    return Configuration.of(HELD=1, BLOCK=rule["BLOCK"] // 2, num_warps=rule.num_warps)


def tiles(count: int, block: int, warps: int) -> Profile:
    configuration = Configuration.of(HELD=count, BLOCK=block, num_warps=warps)
    name, title = f"held-{count}-block-{block}-warps-{warps}", f"{count} × {block} held, {warps} warps"
    return launched_as(name, title, TILED, lambda _: configuration)


RULE = launched_by_rule(HELD, TILED)
RIVALS = (
    around_the_rule("half-the-warps", "half the warps", warps=0.5),
    around_the_rule("twice-the-warps", "twice the warps", warps=2),
    around_the_rule("twice-the-rows-and-warps", "twice the rows and warps", rows=2, warps=2),
    launched_as("half-of-a-row-held", "half of a row in registers", HELD, half_in_registers),
    tiles(1, 8192, 32),
    tiles(4, 8192, 32),
    tiles(12, 8192, 16),
    tiles(4, 16384, 32),
    tiles(2, 32768, 32),
)
CLAIMS = tuple(beats_the_rule(rival, RULE, CASES) for rival in RIVALS)

CONFIGURATION_SEARCH = Experiment(
    name="configuration-search",
    title="Configuration Search",
    question="How much does the launch configuration of a memory-bound kernel matter, and does the rule choose well?",
    importance=(
        "Block sizes and warps are usually searched for on one machine and shipped as a table, or searched anew on "
        "every machine by a tuner that times from the host and keeps whatever came out first. The lab's kernels follow "
        "a rule instead. This experiment holds the rule against its neighbours under the protocol that every other "
        "claim is held to, and calls none a winner that is within noise. `lab tune` asks the same of any shape."
    ),
    focus="Launch configuration",
    cases=CASES,
    profiles=(RULE, *RIVALS),
    claims=CLAIMS,
    headlines=CLAIMS[:1],
    does_not_show=(
        "That the rule is the best of all configurations: only those listed were tried.",
        "How the rule fares at other shapes, on other GPUs or with another version of Triton: `lab tune` asks there.",
        "What an eager caller gains: all claims are about GPU time.",
    ),
    metrics={
        "Latency": ("p50 latency", "speed-up over the rule, with interval", "sweeps ahead of the rule"),
        "Launch": ("registers a thread", "spills", "achieved occupancy (profiler)"),
        "Validation": ("error against float64", "noise ratio (p95 / p50)"),
    },
    scopes=("device_cold", "graph"),
)  # fmt: skip
