"""Softmax of a row by a cluster of programs: against float64 on a GPU, and the code that it becomes for an H100."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import torch
import triton
from compiled import printed

from lab.kernels.cluster import MOST_HELD, clusters, has_clusters, is_cluster
from lab.kernels.softmax import softmax, softmax_inputs, softmax_reference, softmax_rule
from lab.kernels.softmax_cluster import softmax_cluster_launch

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
EPSILONS = {torch.float16: 0.51, torch.bfloat16: 0.51, torch.float32: 8}  # 16 bits: the result is rounded once
HELD = [
    (ctas, warps, columns)
    for ctas, warps in ((2, 4), (4, 8), (8, 4), (16, 4), (16, 16))
    for columns in (8, 4096, 16_392, 50_432, 262_208, 524_288)
    if columns <= ctas * warps * 32 * MOST_HELD
]


def assert_near(y: torch.Tensor, x: torch.Tensor) -> None:
    truth = softmax_reference(x)
    info = torch.finfo(y.dtype)
    allowed = EPSILONS[y.dtype] * info.eps * truth.clamp(min=info.tiny)
    if y.dtype != torch.float32:
        allowed += 1e-5 * truth  # of the arithmetic in float32
    assert bool(((y.double() - truth).abs() <= allowed).all())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("ctas", "warps", "columns"), HELD, ids=str)
def test_on_a_gpu_every_cluster_agrees_again_and_again(ctas: int, warps: int, columns: int, dtype: torch.dtype) -> None:
    chosen = clusters(ctas, warps)
    assert has_clusters(torch.cuda.current_device())  # else the rule without them would be tested
    for seed in range(10):
        (x,) = softmax_inputs((301, columns), dtype, "cuda", seed=seed)
        y = softmax(x, configuration=chosen)
        assert_near(y, x)
        assert torch.equal(y, softmax(x, configuration=chosen))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_on_a_gpu_infinities_and_no_numbers_are_as_in_pytorch(dtype: torch.dtype) -> None:
    (x,) = softmax_inputs((7, 32_768), dtype, "cuda", seed=2)
    x[0, :20_000] = float("-inf")  # some programs have no other value
    x[1] = float("-inf")
    x[2, 5] = float("inf")
    x[3, 30_000] = float("nan")
    x[4] = -1000.0
    x[5, :8] = 60_000.0
    y = softmax(x, configuration=clusters(8, 4))
    expected = torch.softmax(x.double(), -1)
    torch.testing.assert_close(y.double(), expected, equal_nan=True, rtol=2 * torch.finfo(dtype).eps, atol=1e-7)


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("rows", [8, 96, 97, 4096])
def test_by_rule_a_cluster_holds_a_wide_row_whole(rows: int, itemsize: int) -> None:
    for columns in (8200, 10_240, 16_384, 50_264, 131_072, 262_208):
        chosen = softmax_rule((rows, columns), itemsize)
        assert columns <= chosen["CTAS"] * chosen.num_warps * 32 * MOST_HELD


def test_by_rule_no_cluster_has_a_narrow_row_one_of_odd_width_or_a_long_row_that_is_nearly_alone() -> None:
    for shape in ((4096, 8192), (96, 4096), (4096, 50_257), (2, 524_288)):
        assert not is_cluster(softmax_rule(shape, 2))


# Compiles the launches of rows by rule, in a process of its own; prints the PTX of each.
FOR_AN_H100 = """
import json, sys
import torch
from triton.compiler import compile
from triton.experimental.gluon._runtime import GluonASTSource
from lab.kernels.softmax import softmax_rule
from lab.kernels.softmax_cluster import softmax_cluster_launch

for place, (columns, dtype, short) in enumerate(json.load(sys.stdin)):
    x = torch.empty(1, columns, dtype=getattr(torch, dtype))
    launch = softmax_cluster_launch(x, softmax_rule((1024, columns), x.itemsize))
    kernel, constants = launch._kernel, launch._constants
    signature = dict(x_ptr="*" + short, y_ptr="*" + short) | dict.fromkeys(constants, "constexpr")
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = GluonASTSource(kernel, signature, places, {(place,): [["tt.divisibility", 16]] for place in (0, 1)})
    made = compile(source, target=HOPPER, options=launch._options)
    open(f"{place}.cubin", "wb").write(made.asm["cubin"])
    print(json.dumps(made.asm["ptx"]))
"""
COMPILED = [(131_072, "bfloat16", "bf16"), (262_208, "float16", "fp16"), (50_260, "float32", "fp32")]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("clusters")
    return folder, [json.loads(line) for line in printed(FOR_AN_H100, COMPILED, folder=folder).splitlines()]


def test_for_an_h100_a_program_reads_its_part_once_and_tells_the_others_its_sum(
    compiled: tuple[Path, list[str]],
) -> None:
    steps = re.findall(r"(?:ld|st)\.global\S*|barrier\.cluster\.\w+|st\.async|ld\.shared\.f32", compiled[1][0])
    columns = [".global.v4.b32"] * 8  # 131,072 columns by 16 programs of 128 threads: 64 for each
    assert steps == [
        "barrier.cluster.arrive", *(f"ld{each}" for each in columns), "barrier.cluster.wait", "st.async",
        *["ld.shared.f32"] * 2,  # a lane reads what one program told
        *(f"st{each}" for each in columns),
    ]  # fmt: skip


@pytest.mark.skipif(not CUOBJDUMP.exists(), reason="this Triton comes without the tool that tells")
def test_for_an_h100_nothing_spills_although_threads_have_few_registers(compiled: tuple[Path, list[str]]) -> None:
    for place, (ptx, registers) in enumerate(zip(compiled[1], (80, 152, 64), strict=True)):
        assert f".maxnreg {registers}" in ptx, COMPILED[place]
        command = [CUOBJDUMP, "--dump-resource-usage", compiled[0] / f"{place}.cubin"]
        listing = subprocess.run(command, text=True, capture_output=True, check=True).stdout
        assert int(listing.partition("STACK:")[2].split()[0]) == 0, COMPILED[place]


def test_a_cluster_that_cannot_hold_a_row_is_refused() -> None:
    x = torch.empty(4, 262_144)
    for ctas, warps in ((3, 4), (32, 4), (16, 64), (2, 4)):
        with pytest.raises(ValueError, match=f"CTAS is {ctas} and num_warps {warps}, for rows of 262144 columns"):
            softmax_cluster_launch(x, clusters(ctas, warps))


def test_a_row_that_stands_alone_has_no_distance_to_another() -> None:
    x = torch.empty(2, 8193)[:1, :8192]
    assert softmax_cluster_launch(x, clusters(4, 4))._constants["x_stride"] == 8192
