import re
from collections.abc import Callable

import pytest
import torch
from accuracy import DTYPES, assert_near
from torch import Tensor

from lab.kernels.glu import (
    geglu_erf,
    geglu_erf_reference,
    geglu_tanh,
    geglu_tanh_reference,
    glu_choices,
    glu_inputs,
    glu_rule,
    glu_traffic,
    halves,
    swiglu,
    swiglu_reference,
)

# The interpreter computes with numpy, which tells of infinities.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")

Unit = Callable[[Tensor, Tensor], Tensor]
UNITS = [
    pytest.param(swiglu, swiglu_reference, id="swiglu"),
    pytest.param(geglu_erf, geglu_erf_reference, id="geglu_erf"),
    pytest.param(geglu_tanh, geglu_tanh_reference, id="geglu_tanh"),
]
every_unit = pytest.mark.parametrize(("unit", "reference"), UNITS)


@every_unit
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 3, 1000), (5, 1024), (1, 4097)], ids=str)
def test_it_agrees_with_float64(
    unit: Unit, reference: Unit, shape: tuple[int, ...], dtype: torch.dtype, device: str
) -> None:
    gate, up = glu_inputs(shape, dtype, device, seed=1)
    assert_near(unit(gate, up), reference(gate, up), gate)


@every_unit
def test_large_and_tiny_gates_agree_too(unit: Unit, reference: Unit, device: str) -> None:
    gate, up = glu_inputs((4, 500), torch.float32, device, seed=2)
    for scale in (1e-3, 30.0, 1e4):
        assert_near(unit(gate * scale, up / scale), reference(gate * scale, up / scale), gate)


def test_swiglu_in_float32_is_exact_at_any_gate(device: str) -> None:
    """If the gate times log2(e) were rounded before its power is taken, the error would be 30 epsilons."""
    gate = torch.linspace(-87, 87, 4096, dtype=torch.float32, device=device)
    up = torch.ones_like(gate)
    truth = swiglu_reference(gate, up)
    assert ((swiglu(gate, up).double() - truth) / truth).abs().max() < 6 * torch.finfo(torch.float32).eps


def test_the_two_gelus_are_reported_apart(device: str) -> None:
    gate, up = glu_inputs((4, 500), torch.float32, device, seed=3)
    difference = (geglu_erf(gate, up) - geglu_tanh(gate, up)).abs().max()
    assert 1e-5 < difference < 1e-2


@every_unit
@pytest.mark.parametrize("columns", [100, 1500])
def test_a_packed_tensor_is_taken_as_views(unit: Unit, reference: Unit, columns: int, device: str) -> None:
    packed, _ = glu_inputs((2, 3, 2 * columns), torch.float16, device, seed=4)
    gate, up = halves(packed)
    assert gate.data_ptr() == packed.data_ptr()
    assert_near(unit(gate, up), reference(packed[..., :columns], packed[..., columns:]), gate)


def test_one_side_may_be_strided(device: str) -> None:
    gate, _ = glu_inputs((6, 100), torch.float32, device, seed=5)
    wide, _ = glu_inputs((6, 130), torch.float32, device, seed=6)
    assert_near(swiglu(gate, wide[:, :100]), swiglu_reference(gate, wide[:, :100]), gate)


@pytest.mark.parametrize("shape", [(0, 8), (3, 0)], ids=str)
def test_no_elements_give_an_empty_result(shape: tuple[int, ...], device: str) -> None:
    assert swiglu(*glu_inputs(shape, torch.float16, device, seed=7)).shape == shape


def test_nan_stays_where_it_was(device: str) -> None:
    gate, up = glu_inputs((3, 50), torch.float32, device, seed=8)
    gate[1, 7] = float("nan")
    y = swiglu(gate, up)
    assert y.isnan().nonzero().tolist() == [[1, 7]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda up: up[:, :-1], "swiglu: up has shape (4, 7); accepted is that of gate, (4, 8)"),
        (lambda up: up.half(), "swiglu: up has dtype torch.float16; accepted is that of gate, torch.float32"),
        (lambda up: up.new_empty(8, 4).t(), "swiglu: up has stride 4 in its last dimension; accepted is 1"),
    ],
    ids=["shape", "dtype", "stride"],
)
def test_sides_that_do_not_match(change: Callable[[Tensor], Tensor], message: str, device: str) -> None:
    gate, up = glu_inputs((4, 8), torch.float32, device, seed=9)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        swiglu(gate, change(up))


def test_an_odd_packed_tensor_is_refused(device: str) -> None:
    with pytest.raises(ValueError, match=re.escape("halves: packed has shape (2, 5); accepted is (..., 2N)")):
        halves(torch.empty(2, 5, device=device))


def test_the_least_traffic_is_two_reads_and_one_write() -> None:
    traffic = glu_traffic((2048, 18_944), itemsize=2)
    assert (traffic.read_bytes, traffic.written_bytes) == (155_189_248, 77_594_624)


@every_unit
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_it_is_within_one_unit_in_the_last_place_of_the_rounded_truth(
    unit: Unit, reference: Unit, dtype: torch.dtype, device: str
) -> None:
    gate, up = glu_inputs((64, 1024), dtype, device, seed=12)
    gate = gate.clamp(-3, 3)  # further out 1 + erf cancels, and what is left is small beside 1 only
    bits = [y.to(dtype).view(torch.int16).int() for y in (unit(gate, up), reference(gate, up))]
    assert (bits[0] - bits[1]).abs().max() <= 1


@every_unit
def test_what_is_not_finite_comes_out_as_the_formula_says(unit: Unit, reference: Unit, device: str) -> None:
    inf, nan = float("inf"), float("nan")
    gate = torch.tensor([inf, -inf, nan, 1.0, 1.0, -200.0, 200.0, 0.0], device=device)
    up = torch.tensor([1.0, 1.0, 1.0, inf, nan, 2.0, 2.0, inf], device=device)
    torch.testing.assert_close(unit(gate, up).double(), reference(gate, up), equal_nan=True, rtol=1e-6, atol=1e-30)


def test_the_inputs_stay_as_they_were(device: str) -> None:
    gate, up = glu_inputs((3, 100), torch.float32, device, seed=13)
    before = gate.clone(), up.clone()
    swiglu(gate, up)
    assert torch.equal(gate, before[0])
    assert torch.equal(up, before[1])


def test_one_row_may_stand_for_many(device: str) -> None:
    gate, up = (side.expand(4, 1500) for side in glu_inputs((1, 1500), torch.float32, device, seed=14))
    assert_near(swiglu(gate, up), swiglu_reference(gate, up), gate)


@pytest.mark.parametrize("offset", [1, 8])
def test_memory_need_not_be_aligned(offset: int, device: str) -> None:
    gate, up = (side[offset:] for side in glu_inputs((3000,), torch.float16, device, seed=15))
    assert_near(swiglu(gate, up), swiglu_reference(gate, up), gate)


def test_axes_in_another_order_are_taken_row_by_row(device: str) -> None:
    gate, up = (side.transpose(0, 1) for side in glu_inputs((4, 3, 40), torch.float32, device, seed=16))
    assert_near(swiglu(gate, up), swiglu_reference(gate, up), gate)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_choice_agrees_and_has_a_whole_load_for_each_thread(dtype: torch.dtype, device: str) -> None:
    gate, up = glu_inputs((2, 5000), dtype, device, seed=17)
    choices = list(glu_choices((2, 5000), dtype.itemsize))
    assert glu_rule((2, 5000), dtype.itemsize) in choices
    for chosen in choices:
        assert chosen["BLOCK"] * dtype.itemsize % (chosen.num_warps * 32 * 16) == 0
        assert_near(swiglu(gate, up, configuration=chosen), swiglu_reference(gate, up), gate)


@pytest.mark.parametrize(
    ("shape", "itemsize", "loads", "warps"),
    [
        ((1, 2**17 - 1), 4, 1, 4),
        ((2, 2**16), 4, 1, 8),
        ((1, 2**19), 4, 1, 8),
        ((128, 4864), 4, 2, 8),  # float32 that the multiprocessors hold at once
        ((1, 2**20), 4, 2, 8),
        ((128, 18944), 4, 1, 8),
        ((128, 4864), 2, 1, 8),
    ],
)
def test_large_calls_have_eight_warps(shape: tuple[int, int], itemsize: int, loads: int, warps: int) -> None:
    chosen = glu_rule(shape, itemsize)
    assert (chosen["BLOCK"] * itemsize // (16 * 32 * chosen.num_warps), chosen.num_warps) == (loads, warps)


@pytest.mark.gpu
@every_unit
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_on_a_gpu_it_agrees_with_float64_over_many_rows(unit: Unit, reference: Unit, dtype: torch.dtype) -> None:
    gate, up = glu_inputs((1001, 4864), dtype, "cuda", seed=10)
    assert_near(unit(gate, up), reference(gate, up), gate)


@pytest.mark.gpu
def test_on_a_gpu_more_than_two_to_the_31_elements_are_addressed_right() -> None:
    gate = torch.ones(2**31 + 4096, dtype=torch.float16, device="cuda")
    last, up = glu_inputs((100,), torch.float16, "cuda", seed=11)
    gate[-100:] = last
    wide = torch.ones_like(gate)
    wide[-100:] = up
    assert_near(swiglu(gate, wide)[-100:].clone(), swiglu_reference(last, up), last)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2048, 18_944), (16, 18_944), (7, 4865)], ids=str)
def test_on_a_gpu_packed_and_separate_sides_give_the_same_bits_twice(shape: tuple[int, int]) -> None:
    gate, up = glu_inputs(shape, torch.bfloat16, "cuda", seed=19)
    y = swiglu(gate, up)
    assert torch.equal(y, swiglu(gate, up))
    assert torch.equal(y, swiglu(*halves(torch.cat([gate, up], dim=-1))))


@pytest.mark.gpu
def test_on_a_gpu_a_graph_computes_on_new_data() -> None:
    gate, up = glu_inputs((64, 4864), torch.bfloat16, "cuda", seed=20)
    swiglu(gate, up)  # compiles, which a capture may not
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = swiglu(gate, up)
    for side, fresh in zip((gate, up), glu_inputs((64, 4864), torch.bfloat16, "cuda", seed=21), strict=True):
        side.copy_(fresh)
    graph.replay()
    assert_near(y, swiglu_reference(gate, up), gate)
