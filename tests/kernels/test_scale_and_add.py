"""Operators that take each element by itself; how elements are spread over programs is test_copy's."""

import pytest
import torch
from accuracy import DTYPES
from torch import Tensor

from lab.kernels.add import add, add_choices, add_inputs, add_reference, add_traffic
from lab.kernels.scale import scale, scale_choices, scale_inputs, scale_reference, scale_traffic

LAYOUTS = {
    "a run": lambda x: x,
    "rows of a wider buffer": lambda x: x[:, :, :33],
    "every other column": lambda x: x[..., ::2],
    "a transposed matrix": lambda x: x[0].t(),
    "heads before tokens": lambda x: x.transpose(0, 1),
    "one row many times": lambda x: x[0, :1].expand(40, -1),
    "memory between two loads": lambda x: x.flatten()[1:],
    "no axes": lambda x: x[0, 0, 0],
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def assert_rounded_once(result: Tensor, truth: Tensor, x: Tensor) -> None:
    """Within one unit in the last place: Triton's interpreter rounds towards zero."""
    assert (result.shape, result.dtype) == (x.shape, x.dtype)
    assert result.is_contiguous()
    limits = torch.finfo(x.dtype)
    assert bool(((result.double() - truth).abs() <= limits.eps * truth.abs() + limits.tiny * limits.eps).all())


@every_dtype
@every_layout
def test_a_tensor_is_scaled(layout, dtype: torch.dtype, device: str) -> None:
    x, factor = scale_inputs((3, 37, 70), dtype, device, seed=1)
    x = layout(x)
    assert_rounded_once(scale(x, factor), scale_reference(x, factor), x)


@every_dtype
@every_layout
def test_two_tensors_are_added(layout, dtype: torch.dtype, device: str) -> None:
    x, y = map(layout, add_inputs((3, 37, 70), dtype, device, seed=2))
    assert_rounded_once(add(x, y), add_reference(x, y), x)


def test_tensors_of_different_layouts_are_added(device: str) -> None:
    x, y = add_inputs((40, 40), torch.float32, device, seed=3)
    assert_rounded_once(add(x, y.t()), add_reference(x, y.t()), x)
    row = y[:1].expand(40, -1)
    assert_rounded_once(add(x, row), add_reference(x, row), x)
    assert_rounded_once(add(x, x), 2 * x.double(), x)


@pytest.mark.parametrize("factor", [0, 1, -2.5, 1e30, float("inf"), True])
def test_any_number_is_a_factor(factor: float, device: str) -> None:
    x, _ = scale_inputs((100,), torch.float32, device, seed=4)
    assert torch.equal(scale(x, factor), x * factor)


def test_float16_products_and_sums_are_taken_in_float32(device: str) -> None:
    x = torch.full((600,), 60_000.0, dtype=torch.float16, device=device)
    assert scale(x, 2.0).isinf().all()
    assert torch.equal(scale(scale(x, 1e-4), 1e4), x * 1e-4 * 1e4)
    assert add(x, x).isinf().all()
    assert add(x, -x).eq(0).all()


def test_values_that_are_no_numbers_stay_where_they_are(device: str) -> None:
    x = torch.ones(3, 700, device=device)
    x[1, 3], x[2, 0] = float("nan"), float("inf")
    for y in (scale(x, 2.0), add(x, x)):
        assert y.isnan().nonzero().tolist() == [[1, 3]]
        assert y.isinf().nonzero().tolist() == [[2, 0]]


def test_the_inputs_stay_as_they_were(device: str) -> None:
    x, y = add_inputs((900,), torch.float32, device, seed=5)
    before = x.clone(), y.clone()
    add(x, y)
    scale(x, 3.0)
    assert torch.equal(x, before[0])
    assert torch.equal(y, before[1])


@pytest.mark.parametrize("shape", [(0,), (8, 0), (0, 8)], ids=str)
def test_nothing_gives_an_empty_result(shape: tuple[int, ...], device: str) -> None:
    x = torch.ones(shape, device=device)
    assert scale(x, 2.0).shape == shape
    assert add(x, x).shape == shape


def test_each_choice_gives_the_same_result(device: str) -> None:
    x, y = add_inputs((70, 130), torch.bfloat16, device, seed=6)
    for configuration in add_choices(x.shape, x.itemsize):
        assert torch.equal(add(x, y, configuration=configuration), add(x, y))
    for configuration in scale_choices(x.shape, x.itemsize):
        assert torch.equal(scale(x, 0.5, configuration=configuration), scale(x, 0.5))


def test_what_they_refuse(device: str) -> None:
    x = torch.ones(2, 2, 2, 2, device=device)
    with pytest.raises(TypeError, match=r"scale: x is a list; accepted is a torch\.Tensor"):
        scale([1.0], 2.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"scale: factor is a Tensor; accepted is a float or an int"):
        scale(x, x)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"add: y is a float; accepted is a torch\.Tensor"):
        add(x, 1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"add: x has dtype torch\.int32; accepted are torch\.float16"):
        add(x.int(), x)
    with pytest.raises(ValueError, match=r"add: y has shape \(2, 2, 2\); accepted is that of x, \(2, 2, 2, 2\)"):
        add(x, x[0])
    with pytest.raises(ValueError, match=r"add: y has dtype torch\.float16; accepted is that of x, torch\.float32"):
        add(x, x.half())
    with pytest.raises(
        ValueError, match=r"add: x has shape .* and y has shape .* and strides \(1, 2, 4, 8\), which is 4"
    ):
        add(x, x.permute(3, 2, 1, 0))
    with pytest.raises(NotImplementedError, match="add: y requires grad"):
        add(x, x.clone().requires_grad_())
    with pytest.raises(NotImplementedError, match="scale: x requires grad"):
        scale(x.requires_grad_(), 2.0)


def test_the_least_traffic() -> None:
    scaled, added = scale_traffic((256, 262_144), itemsize=4), add_traffic((256, 262_144), itemsize=4)
    assert (scaled.read_bytes, scaled.written_bytes, scaled.flops) == (256 << 20, 256 << 20, 64 << 20)
    assert (added.read_bytes, added.written_bytes, added.flops) == (512 << 20, 256 << 20, 64 << 20)


@pytest.mark.gpu
@pytest.mark.parametrize("strided", [False, True])
def test_elements_beyond_two_to_the_31st_are_reached(strided: bool) -> None:
    x = torch.zeros(2**31 + 4100, dtype=torch.float16, device="cuda")
    x[-4100:] = torch.randn(4100, device="cuda")
    if strided:
        x = x.view(2, -1).t()
    assert torch.equal(scale(x, 0.5), x * 0.5)
    assert torch.equal(add(x, x), x + x)


@pytest.mark.gpu
def test_on_a_gpu_a_captured_graph_replays_on_new_data() -> None:
    x, y = add_inputs((1000, 3000), torch.float32, "cuda", seed=7)
    scale(add(x, y), 0.5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = scale(add(x, y), 0.5)
    x.neg_()
    graph.replay()
    assert torch.equal(z, (x + y) * 0.5)
