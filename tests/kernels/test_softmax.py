import math
import re
from pathlib import Path

import pytest
import torch
from accuracy import DTYPES, ODD_COLUMNS, assert_near
from compiled import printed
from torch import Tensor

from lab.kernels.launch import Configuration
from lab.kernels.softmax import (
    softmax,
    softmax_choices,
    softmax_inputs,
    softmax_reference,
    softmax_traffic,
    softmax_without_clusters,
)

INFINITY = float("inf")
WIDE = [16_384, 16_385, 32_768, 32_769, 49_152, 70_001]


def check(x: Tensor, configuration: Configuration | None = None) -> None:
    """Near the truth, and near it for its size: in a wide row every share is far below one.

    The distance to the maximum is rounded before its exponential is taken: an error that grows with it, in float32 the
    larger one. Below the smallest normal number float32 has nothing, the others their subnormal ones.
    """
    y, truth = softmax(x, configuration=configuration), softmax_reference(x)
    assert_near(y, truth, x)
    limits = torch.finfo(x.dtype)
    distance = x.double().amax(-1, keepdim=True) - x.double()
    epsilons = 16 + distance.clamp(max=200) if x.dtype == torch.float32 else 1
    smallest = limits.tiny if x.dtype == torch.float32 else limits.tiny * limits.eps
    assert bool(((y.double() - truth).abs() <= epsilons * limits.eps * truth + smallest).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [*ODD_COLUMNS, *WIDE])
def test_it_agrees_with_float64_at_any_number_of_columns(columns: int, dtype: torch.dtype, device: str) -> None:
    check(*softmax_inputs((3, columns), dtype, device, seed=1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [262_208, 524_287, 524_288])
def test_the_widest_rows_agree_with_float64_divided_and_in_tiles(columns: int, dtype: torch.dtype, device: str) -> None:
    (x,) = softmax_inputs((1, columns), dtype, device, seed=21)
    divided, in_tiles = (softmax_without_clusters((rows, columns), x.itemsize) for rows in (1, 1024))
    assert "PART" in dict(divided.constants)
    assert "HELD" in dict(in_tiles.constants)
    for configuration in (divided, in_tiles):
        check(x, configuration)


@pytest.mark.parametrize("columns", [100, 20_000])
@pytest.mark.parametrize("offset", [-60_000.0, 0.0, 60_000.0])
def test_what_is_added_to_a_whole_row_changes_nothing(offset: float, columns: int, device: str) -> None:
    (x,) = softmax_inputs((2, columns), torch.float32, device, seed=2)
    check((x * 8).round() + offset)


@pytest.mark.parametrize("columns", [100, 20_000])
def test_a_few_large_logits_take_all(columns: int, device: str) -> None:
    (x,) = softmax_inputs((2, columns), torch.float32, device, seed=3)
    x[0, columns // 2] = 1e4
    y = softmax(x)
    assert y[0, columns // 2] == 1
    assert y[0].sum() == 1
    check(x)


@pytest.mark.parametrize("columns", [100, 20_000])
def test_masked_columns_get_nothing(columns: int, device: str) -> None:
    (x,) = softmax_inputs((2, columns), torch.float32, device, seed=4)
    x[:, columns // 3 :] = -INFINITY
    x -= 1000  # far from the zero that stands for lanes without anything
    y = softmax(x)
    assert y[:, columns // 3 :].eq(0).all()
    check(x)


@pytest.mark.parametrize("columns", [1, 100, 20_000])
@pytest.mark.parametrize("value", [-INFINITY, INFINITY, math.nan])
def test_rows_without_a_finite_maximum_are_nan_as_in_torch_and_alone(value: float, columns: int, device: str) -> None:
    (x,) = softmax_inputs((3, columns), torch.float32, device, seed=5)
    if value == -INFINITY:
        x[1] = value
    else:
        x[1, columns // 2] = value
    y = softmax(x)
    assert y[1].isnan().all()
    assert torch.softmax(x, -1)[1].isnan().all()
    assert not y[[0, 2]].isnan().any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [257, 1000])
def test_a_row_divided_among_programs_is_right_wherever_its_maximum_is(
    columns: int, dtype: torch.dtype, device: str
) -> None:
    (x,) = softmax_inputs((6, columns), dtype, device, seed=13)
    x[1, :256] = -INFINITY  # nothing in the first part
    x[2, 256:] = 30.0  # all in the last
    x[3, 0] = math.nan
    x[4] = -INFINITY
    x[5, -1] = INFINITY
    divided = Configuration.of(PART=256, num_warps=1)
    y = softmax(x, configuration=divided)
    assert y[3:].isnan().all()
    check(x[:3], divided)


def test_without_clusters_few_wide_rows_are_divided_and_many_are_not() -> None:
    divided = [M for M in (1, 16, 64, 128, 1024) if "PART" in dict(softmax_without_clusters((M, 128_256), 2).constants)]
    assert divided == [1, 16, 64]
    assert "PART" not in dict(softmax_without_clusters((64, 17_000), 2).constants)
    assert "PART" not in dict(softmax_without_clusters((1, 16_384), 2).constants)


def test_float32_loses_nothing_more_where_an_element_is_far_below_the_maximum(device: str) -> None:
    """If the distance times log2(e) were rounded before its power is taken, the error would be 40 epsilons.

    The maximum is 0: else the distance itself is rounded, as in PyTorch.
    """
    distance = -torch.linspace(0, 86, 4096, dtype=torch.float32, device=device)
    y, truth = softmax(distance[None]), softmax_reference(distance[None])
    assert ((y.double() - truth) / truth).abs().max() < 8 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("columns", [100, 20_000])
def test_rows_may_lie_any_distance_apart(columns: int, device: str) -> None:
    (x,) = softmax_inputs((6, columns + 7), torch.float32, device, seed=6)
    check(x[::2, :columns])


@pytest.mark.parametrize("columns", [100, 40_000])
def test_a_row_may_stand_for_many_begin_anywhere_or_come_alone(columns: int, device: str) -> None:
    (x,) = softmax_inputs((3, columns + 1), torch.float16, device, seed=7)
    check(x[:1].expand(4, columns + 1))
    check(x[:, 1:])
    check(x[0])
    check(x.view(3, 1, columns + 1).transpose(0, 1))


@pytest.mark.parametrize("columns", [1000, 17_000])
def test_each_choice_gives_the_same_result(columns: int, device: str) -> None:
    (x,) = softmax_inputs((5, columns), torch.bfloat16, device, seed=8)
    for configuration in softmax_choices(x.shape, x.itemsize):
        check(x, configuration)


def test_without_clusters_a_row_is_held_whole_as_far_as_registers_go() -> None:
    by_width = {
        N: "ROWS" in dict(softmax_without_clusters((64, N), 2).constants)
        for N in (1, 1000, 16_384, 16_385, 32_768, 32_769, 262_144)
    }
    assert [N for N, whole in by_width.items() if whole] == [1, 1000, 16_384]


# Of 16-bit columns eight are read at once: rows of 2047 and 2049 end just before and just after a tile's end.
# Every width with every way to hold it and with every dtype, and every way with every dtype.
SHIFTED = [
    (tiles, block, columns, DTYPES[(number + way) % len(DTYPES)])
    for number, columns in enumerate([1, 7, 255, 257, 1021, 1023, 1025, 1030, 2047, 2049])
    for way, (tiles, block) in enumerate([(1, 256), (3, 256), (9, 256), (1, 1024)])
]


@pytest.mark.parametrize(("tiles", "block", "columns", "dtype"), SHIFTED, ids=str)
def test_rows_that_begin_at_any_address(tiles: int, block: int, columns: int, dtype: torch.dtype, device: str) -> None:
    (x,) = softmax_inputs((9, columns), dtype, device, seed=12)
    x[2, columns // 2 :] = -INFINITY
    tiles = min(tiles, -(-columns // block))
    y = softmax(x, configuration=Configuration.of(HELD=tiles, BLOCK=block, num_warps=1))
    torch.testing.assert_close(y.double().nan_to_num(), softmax_reference(x).nan_to_num(), rtol=8e-3, atol=1e-6)


@pytest.mark.parametrize("columns", [100, 40_000])
def test_the_inputs_stay_as_they_were(columns: int, device: str) -> None:
    (x,) = softmax_inputs((2, columns), torch.float32, device, seed=9)
    before = x.clone()
    softmax(x)
    assert torch.equal(x, before)


def test_zero_rows_give_an_empty_result(device: str) -> None:
    assert softmax(torch.empty((2, 0, 64), device=device)).shape == (2, 0, 64)


def test_what_it_refuses(device: str) -> None:
    x = torch.ones(2, 8, device=device)
    with pytest.raises(TypeError, match=r"softmax: x is a list; accepted is a torch\.Tensor"):
        softmax([1.0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"softmax: x has dtype torch\.float64; accepted are torch\.float16"):
        softmax(x.double())
    with pytest.raises(ValueError, match=r"softmax: x has shape \(\); at least one dimension"):
        softmax(x[0, 0])
    with pytest.raises(ValueError, match="softmax: x has 524289 columns; accepted are 1 to 524288"):
        softmax(torch.empty((0, 524_289), device=device))
    with pytest.raises(ValueError, match="softmax: x has stride 8 in its last dimension; accepted is 1"):
        softmax(x.t())


def test_the_least_traffic_is_one_read_and_one_write() -> None:
    traffic = softmax_traffic((4096, 8192), itemsize=2)
    assert (traffic.read_bytes, traffic.written_bytes, traffic.flops) == (2**26, 2**26, 5 * 2**25)


FOR_AN_H100 = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from lab.kernels.softmax import _softmax_kernel as kernel

constants = dict(x_stride=1000, N=1000, ROWS=1, BLOCK=1024, PIECES=1, PARTIAL=False, PACKED=False)
signature = dict(x_ptr="*bf16", y_ptr="*bf16", M="i32") | dict.fromkeys(constants, "constexpr")
aligned = {(place,): [["tt.divisibility", 16]] for place in (0, 1)}
source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
print(compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 2}).asm["ptx"])
"""


def test_rows_of_a_multiple_of_eight_are_loaded_16_bytes_at_a_time(tmp_path: Path) -> None:
    accesses = re.findall(r"(?:ld|st)\.global\S*", printed(FOR_AN_H100, cache=tmp_path))
    assert len(accesses) == 4  # of 1024 columns by 64 threads: two loads, two stores
    assert all(access.endswith(".v4.b32") for access in accesses)


DIVIDED_FOR_AN_H100 = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from lab.kernels.softmax_split import _softmax_join_kernel, _softmax_parts_kernel

constants = dict(x_stride=128256, N=128256, PARTS=32, PART=4096)
for kernel in (_softmax_parts_kernel, _softmax_join_kernel):
    pointers = {name: "*fp32" if name in ("tops_ptr", "sums_ptr") else "*bf16" for name in kernel.arg_names[:-4]}
    aligned = {(place,): [["tt.divisibility", 16]] for place in range(len(pointers))}
    source = ASTSource(kernel, pointers | dict.fromkeys(constants, "constexpr"), constants, aligned)
    made = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "launch_pdl": True})
    print(made.asm["ptx"])
"""


def test_what_joins_the_parts_of_a_row_waits_for_them_after_it_has_read_its_own(tmp_path: Path) -> None:
    """Of 4096 columns a thread of 128 reads and writes 16 bytes four times."""
    ptx = printed(DIVIDED_FOR_AN_H100, cache=tmp_path)
    steps = re.findall(r"griddepcontrol\.\w+|(?:ld|st)\.global\S*", ptx)
    columns = [".global.v4.b32"] * 4
    waited = ["griddepcontrol.wait", "griddepcontrol.launch_dependents"]
    assert steps == [
        *waited, *(f"ld{each}" for each in columns), *["st.global.b32"] * 2,
        *(f"ld{each}" for each in columns), *waited, *["ld.global.b32"] * 2, *(f"st{each}" for each in columns),
    ]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [*ODD_COLUMNS, *WIDE, 65_536, 65_537, 131_072, 262_144, 262_208, 524_288])
def test_on_a_gpu_it_agrees_with_float64_over_many_rows(columns: int, dtype: torch.dtype) -> None:
    check(*softmax_inputs((301, columns), dtype, "cuda", seed=7))


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [4096, 131_072])
def test_on_a_gpu_it_gives_the_same_bits_twice(columns: int) -> None:
    (x,) = softmax_inputs((513, columns), torch.float16, "cuda", seed=8)
    assert torch.equal(softmax(x), softmax(x))


@pytest.mark.gpu
def test_on_a_gpu_more_than_two_to_the_31_elements_are_addressed_right() -> None:
    x = torch.zeros((2**31 // 4096 + 5, 4096), dtype=torch.float16, device="cuda")
    (last,) = softmax_inputs((3, 4096), torch.float16, "cuda", seed=9)
    x[-3:] = last
    assert_near(softmax(x)[-3:], softmax_reference(last), last)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [16_385, 50_257, 128_256, 262_144, 524_288])
def test_on_a_gpu_a_row_divided_among_programs_agrees_again_and_again(columns: int, dtype: torch.dtype) -> None:
    """The second launch begins before the first has ended, and its results are those of other data each time."""
    for seed in range(20):
        (x,) = softmax_inputs((8, columns), dtype, "cuda", seed=seed)
        y, again = softmax(x), softmax(x)
        assert torch.equal(y, again)
        check(x)


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [4096, 131_072])
def test_on_a_gpu_a_captured_graph_replays_on_new_data(columns: int) -> None:
    (x,) = softmax_inputs((33, columns), torch.float16, "cuda", seed=10)
    softmax(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = softmax(x)
    x.copy_(softmax_inputs((33, columns), torch.float16, "cuda", seed=11)[0])
    graph.replay()
    assert_near(y, softmax_reference(x), x)
