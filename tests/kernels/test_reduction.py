import pytest
import torch
from accuracy import DTYPES
from torch import Tensor

from lab.kernels.launch import Configuration
from lab.kernels.reduction import (
    STRATEGIES,
    reduction,
    reduction_choices,
    reduction_inputs,
    reduction_reference,
    reduction_rule,
    reduction_traffic,
)

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
# Few programs and small tiles, so that small tensors make them go several rounds.
SMALL = Configuration.of(BLOCK=256, PROGRAMS=3, num_warps=1)


def drawn(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Tensor:
    return reduction_inputs(shape, dtype, device, seed=1)[0]


def check(x: Tensor, strategy: str, configuration: Configuration | None = None) -> None:
    """Within the roundings of a float32 sum of normal numbers, of which √n is the size."""
    y, truth = reduction(x, strategy=strategy, configuration=configuration), reduction_reference(x)
    assert (y.shape, y.dtype, y.device) == ((), torch.float32, x.device)
    allowed = 8 * torch.finfo(torch.float32).eps * (truth.abs().item() + max(1, x.numel()) ** 0.5)
    assert abs(y.item() - truth.item()) <= allowed


@every_strategy
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("elements", [1, 7, 255, 256, 257, 767, 768, 769, 2304, 5000])
def test_everything_is_summed(elements: int, dtype: torch.dtype, strategy: str, device: str) -> None:
    """Sizes around a tile, a round of all programs and several rounds."""
    x = drawn(elements, dtype=dtype, device=device)
    check(x, strategy, SMALL)
    check(x, strategy)


@every_strategy
@pytest.mark.parametrize("shape", [(), (1,), (2, 3, 5, 7, 4), (100, 1000)], ids=str)
def test_a_tensor_of_any_shape_is_summed(shape: tuple[int, ...], strategy: str, device: str) -> None:
    check(drawn(*shape, device=device), strategy)


@every_strategy
@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x[:, :33],
        lambda x: x[:, ::2],
        lambda x: x.t(),
        lambda x: x.view(37, 7, 10).permute(1, 2, 0),
        lambda x: x[:1].expand(9, -1),
        lambda x: x.flatten()[1:],
    ],
    ids=[
        "rows of a wider buffer",
        "every other column",
        "transposed",
        "axes turned",
        "one row many times",
        "unaligned",
    ],
)
def test_a_strided_tensor_is_summed(layout, strategy: str, device: str) -> None:
    check(layout(drawn(37, 70, device=device)), strategy, SMALL)


@every_strategy
def test_sums_beyond_float16_are_sums(strategy: str, device: str) -> None:
    x = torch.full((4096,), 60_000.0, dtype=torch.float16, device=device)
    assert reduction(x, strategy=strategy, configuration=SMALL).item() == 4096 * x[0].item()


@every_strategy
@pytest.mark.parametrize(("value", "expected"), [(float("nan"), "nan"), (float("inf"), "inf"), (-float("inf"), "-inf")])
def test_what_is_no_number_is_seen_in_the_sum(value: float, expected: str, strategy: str, device: str) -> None:
    x = drawn(3000, device=device)
    x[2000] = value
    assert str(reduction(x, strategy=strategy, configuration=SMALL).item()) == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 8)], ids=str)
def test_nothing_sums_to_zero(shape: tuple[int, ...], strategy: str, device: str) -> None:
    y = reduction(torch.ones(shape, device=device), strategy=strategy)
    assert (y.item(), y.shape, y.dtype) == (0.0, (), torch.float32)


@every_strategy
def test_each_call_has_a_result_of_its_own(strategy: str, device: str) -> None:
    x = drawn(3000, device=device)
    before = x.clone()
    first = reduction(x, strategy=strategy, configuration=SMALL)
    kept = first.clone()
    reduction(x + 1, strategy=strategy, configuration=SMALL)
    assert torch.equal(first, kept)
    assert torch.equal(x, before)


@every_strategy
def test_each_choice_sums(strategy: str, device: str) -> None:
    x = drawn(9000, device=device)
    for configuration in reduction_choices(x.shape, x.itemsize):
        check(x, strategy, configuration)


def test_the_rule_is_one_of_the_choices() -> None:
    assert all(reduction_rule((1 << 28,), size) in [*reduction_choices((1 << 28,), size)] for size in (2, 4))


def test_what_it_refuses(device: str) -> None:
    x = torch.ones(2, 4, device=device)
    with pytest.raises(TypeError, match=r"reduction: x is a list; accepted is a torch\.Tensor"):
        reduction([1.0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"reduction: x has dtype torch\.int64; accepted are torch\.float16"):
        reduction(x.long())
    with pytest.raises(ValueError, match="reduction: strategy is 'hope'; accepted are 'tree' and 'atomic'"):
        reduction(x, strategy="hope")
    with pytest.raises(NotImplementedError, match="reduction: x requires grad"):
        reduction(x.requires_grad_())


def test_the_least_traffic_is_one_read_of_the_tensor_and_one_sum() -> None:
    traffic = reduction_traffic((1024, 262_144), itemsize=4)
    assert (traffic.read_bytes, traffic.written_bytes, traffic.flops) == (1 << 30, 4, 1 << 28)


@pytest.mark.gpu
def test_on_a_gpu_a_tree_gives_the_same_bits_whenever_it_is_asked() -> None:
    x = drawn(1 << 27, device="cuda")
    assert len({reduction(x).item() for _ in range(20)}) == 1


@pytest.mark.gpu
@every_strategy
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("elements", [4097, 10**6 + 1, 1 << 26])
def test_on_a_gpu_large_tensors_are_summed(elements: int, dtype: torch.dtype, strategy: str) -> None:
    check(drawn(elements, dtype=dtype, device="cuda"), strategy)


@pytest.mark.gpu
@every_strategy
def test_on_a_gpu_elements_beyond_two_to_the_31st_are_summed(strategy: str) -> None:
    x = torch.zeros(2**31 + 4099, dtype=torch.float16, device="cuda")
    x[-4099:] = 0.25
    assert reduction(x, strategy=strategy).item() == 4099 / 4


@pytest.mark.gpu
@every_strategy
def test_on_a_gpu_a_captured_graph_replays_on_new_data(strategy: str) -> None:
    """The result of the first replay must not be left in that of the second."""
    x = drawn(1 << 22, device="cuda")
    reduction(x, strategy=strategy)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = reduction(x, strategy=strategy)
    for value in (1.0, 0.5):
        x.fill_(value)
        graph.replay()
        assert y.item() == value * (1 << 22)


@every_strategy
def test_nothing_sums_to_float32_whatever_the_default_type_is(strategy: str, device: str) -> None:
    x = torch.empty(0, dtype=torch.float16, device=device)
    torch.set_default_dtype(torch.float64)
    try:
        assert reduction(x, strategy=strategy).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
