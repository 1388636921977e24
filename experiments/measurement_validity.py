"""Are the lab's verdicts right if the answer is known? The same code under two names, and known extra work."""

from collections.abc import Callable

import torch
from torch import Tensor

from experiments.gpu_ceilings import matmul_inputs, matmul_reference, matmul_traffic
from experiments.normalization_fusion import LAYERNORM, RMSNORM, layernorm_fused, rmsnorm_fused
from lab import Case, Claim, Experiment, Operator, Profile
from lab.kernels.chain import chain, chain_inputs, chain_reference, chain_traffic, extra_steps
from lab.kernels.layernorm import layernorm
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.stream import extra_rows, stream, stream_inputs, stream_reference, stream_traffic


def chain_in_torch(x: Tensor, steps: int) -> Tensor:
    half = 0.5 * x
    value = x.clone()
    for _ in range(steps):
        value = torch.add(half, value, alpha=0.5)
    return value


def chain_plain(x: Tensor, steps: int) -> Tensor:
    """The kernel on a GPU; on a CPU, where only the lab's own code is tested, the same steps in PyTorch."""
    return chain(x, steps) if x.is_cuda else chain_in_torch(x, steps)


def stream_plain(x: Tensor, rows: int) -> Tensor:
    """The kernel on a GPU; on the CPU, the same copy in PyTorch."""
    return stream(x, rows) if x.is_cuda else x[:rows].clone()


def longer_chain(share: float) -> Callable[..., Tensor]:
    return lambda x, steps: chain(x, steps + extra_steps(steps, share))


def longer_stream(share: float) -> Callable[..., Tensor]:
    return lambda x, rows: stream(x, rows, extra_rows(x, rows, share))


# Copies are exact: any error is a defect.
CHAIN = Operator(
    name="chain", inputs=chain_inputs, reference=chain_reference, traffic=chain_traffic,
    tolerance=0.5, standard=chain_plain,
)  # fmt: skip
STREAM = Operator(
    name="stream", inputs=stream_inputs, reference=stream_reference, traffic=stream_traffic,
    tolerance=0.5, standard=stream_plain,
)  # fmt: skip
MATMUL = Operator(
    name="matmul",
    inputs=matmul_inputs,
    reference=matmul_reference,
    traffic=matmul_traffic,
    # Half an epsilon for the one rounding. The float32 sum of K terms of size 1/√K errs by about √K · 2⁻²⁴, and at most
    # by K · 2⁻²⁴ (1.2e-4 at K = 2048; an epsilon of float16 is 9.8e-4): the scale allows for it.
    tolerance=1,
    standard=torch.matmul,
)

FULL = "full-validity"
MEBIBYTE_ROWS = 64  # of 4096 numbers of 4 bytes


def chain_case(steps: int, microseconds: int, only_with: str = FULL) -> Case:
    """A case with one element for each of 128 × 128 threads: a program for nearly every multiprocessor of an H100."""
    return Case(
        operator=CHAIN, shape=(128 * 128, steps), dtype="float32", only_with=only_with,
        description=f"a chain of dependent multiply-adds, about {microseconds} µs on an H100",
    )  # fmt: skip


def stream_case(mebibytes: int) -> Case:
    return Case(
        operator=STREAM, shape=(mebibytes * MEBIBYTE_ROWS, 4096), dtype="float32", only_with=FULL,
        description=f"a copy of {mebibytes} MiB, bound by memory",
    )  # fmt: skip


def rmsnorm_case(rows: int, columns: int, only_with: str = FULL) -> Case:
    return Case(
        operator=RMSNORM, shape=(rows, columns), dtype="float16", only_with=only_with,
        description="RMSNorm forward pass, as in normalization-fusion",
    )  # fmt: skip


CHAIN_CASES = (
    chain_case(4_280, 20, only_with=""),
    chain_case(13_080, 50),
    chain_case(27_080, 100),
    chain_case(112_680, 400),
    chain_case(1_423_880, 5_000),
)
STREAM_CASES = (stream_case(256), stream_case(512), stream_case(1024))
NORM_CASES = (
    rmsnorm_case(512, 1024, only_with=""),
    rmsnorm_case(1024, 2048),
    rmsnorm_case(2048, 4096),
    rmsnorm_case(4096, 4096),
    Case(
        operator=LAYERNORM, shape=(4096, 4096), dtype="float32", only_with=FULL,
        description="LayerNorm forward pass, as in normalization-fusion",
    ),
)  # fmt: skip
MATMUL_CASES = (
    Case(
        operator=MATMUL, shape=(2048, 2048, 2048), dtype="float16", only_with=FULL,
        description="a matrix product, bound by arithmetic",
    ),
)  # fmt: skip
KNOWN_CASES = CHAIN_CASES + STREAM_CASES
CASES = KNOWN_CASES + NORM_CASES + MATMUL_CASES

PLAIN_CODE: dict[str, Callable[[], Callable[..., Tensor]]] = {
    "chain": lambda: chain_plain,
    "stream": lambda: stream_plain,
    "rmsnorm": lambda: rmsnorm_fused,
    "layernorm": lambda: layernorm_fused,
    "matmul": lambda: torch.matmul,
}
TRITON_CODE: dict[str, Callable[[], Callable[..., Tensor]]] = {
    "rmsnorm": lambda: rmsnorm,
    "layernorm": lambda: layernorm,
}
OWN_KERNELS = {"chain": "_chain_kernel", "stream": "_stream_kernel"}
TRITON_KERNELS = {"rmsnorm": "_rmsnorm_kernel", "layernorm": "_layernorm_kernel"}
SAME_SIGNAL = "The very same kernels, counters and all."

PLAIN = Profile(
    name="plain",
    title="plain",
    technique="The usual implementation: PyTorch's fused call or matrix product, or the lab's own chain and stream.",
    hypothesis="The measure that the others are held to.",
    signal="One kernel a call.",
    implementations=PLAIN_CODE,
    kernels=OWN_KERNELS,
)
PLAIN_AGAIN = Profile(
    name="plain-again",
    title="plain, again",
    technique="The same function as plain, under another name.",
    hypothesis="As fast as plain: whatever else is reported is the lab's own error.",
    signal=SAME_SIGNAL,
    implementations=PLAIN_CODE,
    kernels=OWN_KERNELS,
)
TRITON = Profile(
    name="triton",
    title="Triton",
    technique="The lab's own Triton RMSNorm and LayerNorm.",
    hypothesis="The measure that triton-again is held to.",
    signal="One kernel a call.",
    implementations=TRITON_CODE,
    kernels=TRITON_KERNELS,
    devices=("cuda",),
)
TRITON_AGAIN = Profile(
    name="triton-again",
    title="Triton, again",
    technique="The same function as triton, under another name.",
    hypothesis="As fast as triton: whatever else is reported is the lab's own error.",
    signal=SAME_SIGNAL,
    implementations=TRITON_CODE,
    kernels=TRITON_KERNELS,
    devices=("cuda",),
)


def extra_work(percent: int) -> Profile:
    """A profile: the plain kernel with `percent` more of the work that takes its time."""
    share = percent / 100
    return Profile(
        name=f"extra-{percent}",
        title=f"{percent} % more work",
        technique=f"The plain kernel with more steps, or more bytes: {percent} % more time, the launch included.",
        hypothesis=f"Takes `{1 + share:.2f} times` as long as plain.",
        signal=f"The same kernel; for the stream, {percent} % more DRAM bytes.",
        implementations={"chain": lambda: longer_chain(share), "stream": lambda: longer_stream(share)},
        kernels=OWN_KERNELS,
        devices=("cuda",),
    )


EXTRA_1, EXTRA_2, EXTRA_5 = extra_work(1), extra_work(2), extra_work(5)

NEVER_SUPPORTED = ("refuted", "inconclusive", "rerun-noise")
PLAIN_AGAIN_CLAIM = Claim(
    name="plain-again",
    text="The plain implementation is faster than itself under another name (it is not).",
    subject=PLAIN_AGAIN, baseline=PLAIN, cases=CASES, expected=NEVER_SUPPORTED,
)  # fmt: skip
EXTRA_5_CLAIM = Claim(
    name="extra-5",
    text="The plain kernel is faster than the one with 5 % more work (it is, by 5 %).",
    subject=PLAIN, baseline=EXTRA_5, cases=KNOWN_CASES, expected=("supported",),
)  # fmt: skip
CLAIMS = (
    PLAIN_AGAIN_CLAIM,
    Claim(
        name="triton-again",
        text="The Triton norms are faster than themselves under another name (they are not).",
        subject=TRITON_AGAIN, baseline=TRITON, cases=NORM_CASES, expected=NEVER_SUPPORTED,
    ),
    EXTRA_5_CLAIM,
    Claim(
        name="extra-2",
        text="The plain kernel is faster by 2 % than the one with 2 % more work (it lies on the threshold).",
        subject=PLAIN, baseline=EXTRA_2, cases=KNOWN_CASES, expected=("supported", *NEVER_SUPPORTED),
    ),
    Claim(
        name="extra-1",
        text="The plain kernel is faster by 2 % than the one with 1 % more work (it is not).",
        subject=PLAIN, baseline=EXTRA_1, cases=KNOWN_CASES, expected=("refuted", "inconclusive"),
    ),
)  # fmt: skip

MEASUREMENT_VALIDITY = Experiment(
    name="measurement-validity",
    title="Measurement Validity",
    question="Does the lab's verdict agree with what is known?",
    importance=(
        "A verdict is worth what the instrument behind it is worth. Here the right answer is known before "
        "anything is measured: some claims compare a function with itself under another name, and others compare "
        "a kernel with the same kernel that was given 1, 2 or `5 %` more work. The first must never be supported, "
        "the last must be found, and the intervals must hold the known ratio as often as they say. The cases span "
        "launch-sized and large kernels, bound by latency, memory and arithmetic, in libraries and in Triton."
    ),
    focus="Measurement",
    cases=CASES,
    profiles=(PLAIN, PLAIN_AGAIN, TRITON, TRITON_AGAIN, EXTRA_1, EXTRA_2, EXTRA_5),
    claims=CLAIMS,
    headlines=(PLAIN_AGAIN_CLAIM, EXTRA_5_CLAIM),
    does_not_show=(
        "Anything about which implementation is faster: each comparison here is of a kernel with itself.",
        "The error rate on another GPU, driver or host, or in a scope other than device_cold.",
        "Power below `20 µs` of device time, or against differences in the launch rather than in the kernel.",
        "Dishonest kernels: they are the question of an experiment of their own.",
        "How well the extra work of the chain and the stream stands for real differences between two "
        "implementations, which also differ in clock, power and use of the cache.",
    ),
    metrics={
        "Error rate": ("supported verdicts among self-comparisons", "intervals that exclude 1 among them"),
        "Power": ("right verdicts at 5 %", "intervals that exclude 1 at 2 %", "intervals that hold the known ratio"),
        "Spread": ("p50 latency", "noise ratio (p95 / p50)", "between-sweep spread"),
    },
    scopes=("device_cold",),
    self_test=True,
)
