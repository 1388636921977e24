"""Do the profiler's byte counts agree with the bytes that a kernel must move, and do they explain its time?"""

from collections.abc import Iterator
from dataclasses import dataclass

from experiments.gpu_ceilings import COPY, READ, TORCH_SUM, TRITON_COPY, TRITON_SUM
from experiments.measurement_validity import FULL, STREAM
from experiments.normalization_fusion import (
    LAYERNORM,
    LIGER,
    RMSNORM,
    TORCH_BASELINE,
    TORCH_COMPILE,
    TORCH_FUSED,
    TRITON_LAYERNORM,
    TRITON_RMSNORM,
)
from lab import Case, Claim, Experiment, Operator, Profile
from lab.kernels.stream import stream

COLUMNS = 4096
ITEMSIZES = {"float16": 2, "float32": 4}
# Least traffic in MiB. An H100's L2 of 50 MiB has room for all of the smallest, most of the next, and little of others.
SIZES = {8: "", 64: FULL, 256: "", 512: FULL}
BEYOND_L2 = (256, 512)


TRITON_STREAM = Profile(
    name="triton-stream",
    title="Triton stream",
    technique="The copy of rows with which the lab tests itself: one Triton kernel of many small programs.",
    hypothesis="Bound by one read and one write of the rows.",
    signal="The lab's own kernel; as many bytes read as written.",
    implementations={"stream": lambda: stream},
    kernels={"stream": "_stream_kernel"},
    devices=("cuda",),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shipped:
    """A kernel of the lab that memory bandwidth limits, for an input of (rows, COLUMNS)."""

    profile: Profile
    operator: Operator
    passes: int = 2  # over a tensor of that size, at least: one read, one write
    dtypes: tuple[str, ...] = tuple(ITEMSIZES)

    def case(self, mebibytes: int, dtype: str) -> Case:
        rows = (mebibytes << 20) // (self.passes * COLUMNS * ITEMSIZES[dtype])
        return Case(
            operator=self.operator, shape=(rows, COLUMNS), dtype=dtype, only_with=SIZES[mebibytes],
            description=f"{mebibytes} MiB to be moved at least",
        )  # fmt: skip


FUSED_LAYERNORM = Shipped(profile=TRITON_LAYERNORM, operator=LAYERNORM)
FUSED_RMSNORM = Shipped(profile=TRITON_RMSNORM, operator=RMSNORM)
# A further kernel needs one more line here.
SHIPPED = (
    Shipped(profile=TRITON_COPY, operator=COPY),
    Shipped(profile=TRITON_STREAM, operator=STREAM),
    # The sum of a row with a large mean overflows float16.
    Shipped(profile=TRITON_SUM, operator=READ, passes=1, dtypes=("float32",)),
    FUSED_LAYERNORM,
    FUSED_RMSNORM,
)
RIVALS = (TORCH_BASELINE, TORCH_FUSED, TORCH_COMPILE, LIGER, TORCH_SUM)


def cases_of(kernel: Shipped) -> tuple[Case, ...]:
    return tuple(kernel.case(mebibytes, dtype) for dtype in kernel.dtypes for mebibytes in SIZES)


# The norms written out in PyTorch, with the bytes that they read and write for each element of the input. Every
# operator reads its operands and writes its result; in float16 the first operator converts the input to float32.
WRITTEN_OUT = (
    (FUSED_RMSNORM, "float16", 14, 12),
    (FUSED_RMSNORM, "float32", 16, 12),
    (FUSED_LAYERNORM, "float16", 30, 22),
    (FUSED_LAYERNORM, "float32", 28, 20),
)
EXCESS = 1.10  # times the least
TOLERANCE = 1.15  # between a ratio of bytes and one of times


def moves_the_least(kernel: Shipped) -> Claim:
    return Claim(
        name=f"{kernel.profile.name}-moves-the-least",
        text=f"{kernel.profile.title} moves at most {EXCESS:.2f} times the bytes that it must, at every size.",
        subject=kernel.profile, baseline=None, cases=cases_of(kernel), threshold=1 / EXCESS, measure="traffic",
    )  # fmt: skip


def moves_twice(kernel: Shipped) -> Claim:
    cases = tuple(kernel.case(mebibytes, dtype) for dtype in kernel.dtypes for mebibytes in BEYOND_L2)
    return Claim(
        name=f"written-out-{kernel.operator.name}-moves-twice",
        text=f"Written out in PyTorch, what {kernel.profile.title} computes moves at least twice its bytes, beyond L2.",
        subject=kernel.profile, baseline=TORCH_BASELINE, cases=cases, threshold=2.0, measure="traffic",
    )  # fmt: skip


def time_follows(kernel: Shipped, dtype: str, read: int, written: int) -> Iterator[Claim]:
    """Two claims, which give a lower and an upper limit of the ratio of times, from the ratio of bytes."""
    ratio = (read + written) / (kernel.passes * ITEMSIZES[dtype])
    cases = tuple(kernel.case(mebibytes, dtype) for mebibytes in BEYOND_L2)
    what = f"{kernel.profile.title} in {dtype}"
    yield Claim(
        name=f"{kernel.operator.name}-{dtype}-saves-what-its-traffic-says",
        text=f"{what} is at least {ratio / TOLERANCE:.2f} times as fast as written out, which moves {ratio:g} times "
        "the bytes.",
        subject=kernel.profile, baseline=TORCH_BASELINE, cases=cases, threshold=ratio / TOLERANCE,
    )  # fmt: skip
    yield Claim(
        name=f"{kernel.operator.name}-{dtype}-saves-no-more",
        text=f"{what} is at most {ratio * TOLERANCE:.2f} times as fast as written out: its traffic is all it saves.",
        subject=TORCH_BASELINE, baseline=kernel.profile, cases=cases, threshold=1 / (ratio * TOLERANCE),
    )  # fmt: skip


LEAST = tuple(moves_the_least(kernel) for kernel in SHIPPED)
TWICE = (moves_twice(FUSED_RMSNORM), moves_twice(FUSED_LAYERNORM))
TIME = tuple(claim for row in WRITTEN_OUT for claim in time_follows(*row))

PROFILER_VALIDATION = Experiment(
    name="profiler-validation",
    title="Profiler Validation",
    question="Do the profiler's DRAM bytes agree with what each memory-bound kernel must move, and explain its time?",
    importance=(
        "A time says which of two kernels is faster and not why. Counters can say why, if they are counters of the "
        "right kernel, and if what they count is known: so they are first held against a number that needs no "
        "instrument, the bytes that any implementation must read and write. Where the two agree, a kernel has nothing "
        "left to save. Where a rival moves more, the ratio of the bytes says how much slower it should be, and the "
        "clock, which knows nothing of the profiler, whether it is."
    ),
    focus="Counters",
    cases=tuple(case for kernel in SHIPPED for case in cases_of(kernel)),
    profiles=(*RIVALS, *(kernel.profile for kernel in SHIPPED)),
    claims=LEAST + TWICE + TIME,
    headlines=(LEAST[-1], TWICE[0], TIME[0]),
    does_not_show=(
        "What a call moves among others: the profiler empties the caches before each kernel, and a model's next layer "
        "finds in the L2 what the last one left there.",
        "Writes as they happen: what the L2 holds back when a kernel ends is taken to be due to DRAM, and in use may "
        "be overwritten before it gets there.",
        "How much several kernels move when they follow one another with warm caches: their count has bounds only.",
        "Times under the profiler: it runs a pass of its own, at clocks of its own, and no time here comes from it.",
        "Anything about kernels that arithmetic bounds, where bytes do not decide.",
        "Another GPU: a larger L2 holds back more, and the sizes here were chosen for one of `50 MiB`.",
    ),
    metrics={
        "Traffic": ("DRAM bytes read and written (profiler)", "the least over them", "a rival's over them"),
        "Latency": ("p50 latency in device_cold", "speed-up over the written-out form, with interval"),
        "Explanation": ("ratio of times beside ratio of bytes", "kernels a call, occupancy (profiler)"),
    },
    scopes=("device_cold",),
    self_test=True,
)  # fmt: skip
