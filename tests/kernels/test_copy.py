import pytest
import torch
from accuracy import DTYPES
from torch import Tensor

from lab.kernels.copy import copy, copy_choices, copy_inputs, copy_reference, copy_traffic
from lab.kernels.elements import merged_axes, run_rule


def drawn(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Tensor:
    return copy_inputs(shape, dtype, device, seed=1)[0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("elements", [1, 2, 511, 512, 513, 1024, 3 * 1024, 5000])
def test_every_element_of_a_contiguous_tensor_is_copied(elements: int, dtype: torch.dtype, device: str) -> None:
    """Sizes around the share of one program, which is 2048 bytes."""
    x = drawn(elements, dtype=dtype, device=device)
    y = copy(x)
    assert torch.equal(y, x)
    assert y.dtype == dtype
    assert y.data_ptr() != x.data_ptr()
    assert torch.equal(copy_reference(x), x.double())


@pytest.mark.parametrize("shape", [(), (1,), (2, 3, 5, 7, 4), (4, 1, 9)], ids=str)
def test_a_contiguous_tensor_may_have_any_shape(shape: tuple[int, ...], device: str) -> None:
    x = drawn(*shape, device=device)
    assert torch.equal(copy(x), x)


LAYOUTS = {
    "rows of a wider buffer": lambda x: x[:, :, :33],
    "every other column": lambda x: x[..., ::2],
    "one plane": lambda x: x[1],
    "a transposed matrix": lambda x: x[0].t(),
    "heads before tokens": lambda x: x.transpose(0, 1),
    "axes in reverse": lambda x: x.permute(2, 1, 0),
    "one row many times": lambda x: x[0, :1].expand(40, -1),
    "one element many times": lambda x: x[0, 0, :1].expand(1500),
    "every third of a run": lambda x: x.flatten()[::3],
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_strided_tensor_is_copied_into_a_contiguous_one(layout, dtype: torch.dtype, device: str) -> None:
    x = layout(drawn(3, 37, 70, dtype=dtype, device=device))
    y = copy(x)
    assert torch.equal(y, x)
    assert y.is_contiguous()


def test_memory_that_begins_between_two_loads_is_copied(device: str) -> None:
    x = drawn(5000, device=device)[1:]
    assert torch.equal(copy(x), x)


@pytest.mark.parametrize("shape", [(0,), (8, 0), (0, 8), (3, 0, 2)], ids=str)
def test_nothing_gives_an_empty_result(shape: tuple[int, ...], device: str) -> None:
    assert copy(torch.ones(shape, device=device)).shape == shape


def test_values_that_are_no_numbers_are_copied_too(device: str) -> None:
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0], device=device)
    y = copy(x)
    assert torch.equal(y.view(torch.int32), x.view(torch.int32))


def test_axes_that_lie_behind_one_another_are_one() -> None:
    assert merged_axes(torch.empty(2, 3, 4)) == [(24, 1)]
    assert merged_axes(torch.empty(2, 3, 4), torch.empty(2, 3, 8)[..., :4]) == [(6, 4, 8), (4, 1, 1)]
    assert merged_axes(torch.empty(2, 3, 8)[..., :4]) == [(6, 8), (4, 1)]
    assert merged_axes(torch.empty(2, 1, 3).permute(2, 1, 0)) == [(3, 1), (2, 3)]
    assert merged_axes(torch.empty(1, 1)) == []


def test_what_it_refuses(device: str) -> None:
    x = torch.ones(2, 2, 2, 2, device=device)
    with pytest.raises(TypeError, match=r"copy: x is a list; accepted is a torch\.Tensor"):
        copy([1.0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"copy: x has dtype torch\.int32; accepted are torch\.float16"):
        copy(x.int())
    with pytest.raises(ValueError, match=r"copy: x has shape \(2, 2, 2, 2\) and strides \(1, 2, 4, 8\), which is 4"):
        copy(x.permute(3, 2, 1, 0))
    with pytest.raises(NotImplementedError, match="copy: x requires grad"):
        copy(x.requires_grad_())
    with torch.no_grad():
        assert not copy(x).requires_grad


def test_the_traffic_is_one_read_and_one_write() -> None:
    traffic = copy_traffic((256, 262_144), itemsize=4)
    assert (traffic.read_bytes, traffic.written_bytes, traffic.flops) == (256 << 20, 256 << 20, 0)


@pytest.mark.parametrize("itemsize", [2, 4])
def test_every_thread_loads_whole_vectors_of_16_bytes(itemsize: int) -> None:
    choices = [*copy_choices((1 << 20,), itemsize)]
    assert run_rule((1,), itemsize) in choices
    for configuration in choices:
        assert configuration["BLOCK"] * itemsize % (16 * 32 * configuration.num_warps) == 0


@pytest.mark.parametrize("layout", [lambda x: x, lambda x: x[:, :33], lambda x: x.t()], ids=["run", "rows", "square"])
def test_each_choice_copies(layout, device: str) -> None:
    x = layout(drawn(70, 130, dtype=torch.float16, device=device))
    for configuration in copy_choices(x.shape, x.itemsize):
        assert torch.equal(copy(x, configuration=configuration), x)


@pytest.mark.gpu
@pytest.mark.parametrize("strided", [False, True])
def test_elements_beyond_two_to_the_31st_are_copied(strided: bool) -> None:
    x = torch.zeros(2**31 + 4099, dtype=torch.float16, device="cuda")
    x[-4099:] = torch.randn(4099, device="cuda")
    if strided:
        x = x.view(-1)[: 2 * ((2**31 + 4099) // 2)].view(2, -1).t()
    assert torch.equal(copy(x), x)


@pytest.mark.gpu
@pytest.mark.parametrize("layout", [lambda x: x, lambda x: x.t()], ids=["run", "transposed"])
def test_on_a_gpu_a_captured_graph_replays_on_new_data(layout) -> None:
    x = drawn(1000, 3000, device="cuda")
    copy(layout(x))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = copy(layout(x))
    x.neg_()
    graph.replay()
    assert torch.equal(y, layout(x))
