"""What every norm refuses: the message names the argument, what it was and what is accepted."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from lab.kernels.add import add
from lab.kernels.add_rmsnorm import add_rmsnorm
from lab.kernels.copy import copy
from lab.kernels.glu import halves
from lab.kernels.layernorm import layernorm
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.rmsnorm_fp8 import rmsnorm_fp8
from lab.kernels.rmsnorm_rope import qk_norm_rope, rmsnorm_rope
from lab.kernels.rope import angle_tables, rope

Norm = Callable[..., Tensor]


def rms(x: Any, weight: Any) -> Tensor:
    return rmsnorm(x, weight)


def layer_weight(x: Any, weight: Any) -> Tensor:
    return layernorm(x, weight, torch.ones(8, device="cuda" if torch.cuda.is_available() else "cpu"))


def layer_bias(x: Any, bias: Any) -> Tensor:
    return layernorm(x, torch.ones(8, device="cuda" if torch.cuda.is_available() else "cpu"), bias)


# (norm, the name it calls itself, the name of its second argument)
NORMS = [
    pytest.param(rms, "rmsnorm", "weight", id="rmsnorm"),
    pytest.param(layer_weight, "layernorm", "weight", id="layernorm-weight"),
    pytest.param(layer_bias, "layernorm", "bias", id="layernorm-bias"),
]
every_norm = pytest.mark.parametrize(("norm", "name", "vector"), NORMS)


@pytest.fixture
def x(device: str) -> Tensor:
    return torch.ones(4, 8, device=device)


@pytest.fixture
def good(device: str) -> Tensor:
    return torch.ones(8, device=device)


def refused(kind: type[Exception], message: str) -> Any:
    return pytest.raises(kind, match=f"^{re.escape(message)}")


@every_norm
def test_what_is_no_tensor(norm: Norm, name: str, vector: str, x: Tensor, good: Tensor) -> None:
    with refused(TypeError, f"{name}: x is a list; accepted is a torch.Tensor"):
        norm([1.0], good)
    with refused(TypeError, f"{name}: {vector} is a NoneType; accepted is a torch.Tensor"):
        norm(x, None)


@every_norm
@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.complex64], ids=str)
def test_other_dtypes(norm: Norm, name: str, vector: str, x: Tensor, good: Tensor, dtype: torch.dtype) -> None:
    accepted = "accepted are torch.float16, torch.bfloat16, torch.float32"
    with refused(TypeError, f"{name}: x has dtype {dtype}; {accepted}"):
        norm(x.to(dtype), good)
    with refused(TypeError, f"{name}: {vector} has dtype {dtype}; {accepted}"):
        norm(x, good.to(dtype))


@every_norm
def test_a_tensor_on_the_cpu_without_the_interpreter(
    norm: Norm, name: str, vector: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with refused(ValueError, f"{name}: x is on cpu; accepted is a CUDA device"):
        norm(torch.ones(4, 8), torch.ones(8))


@every_norm
def test_a_vector_on_another_device(norm: Norm, name: str, vector: str, x: Tensor) -> None:
    with refused(ValueError, f"{name}: {vector} is on meta; accepted is "):
        norm(x, torch.ones(8, device="meta"))


@every_norm
def test_a_scalar(norm: Norm, name: str, vector: str, x: Tensor, good: Tensor) -> None:
    with refused(ValueError, f"{name}: x has shape (); at least one dimension (..., columns) is needed"):
        norm(x[0, 0], good)


@every_norm
@pytest.mark.parametrize("columns", [0, 524_289])
def test_no_columns_and_too_many(norm: Norm, name: str, vector: str, x: Tensor, good: Tensor, columns: int) -> None:
    with refused(ValueError, f"{name}: x has {columns} columns; accepted are 1 to 524288"):
        norm(torch.ones(2, columns, device=x.device), good)


@every_norm
def test_columns_that_are_not_adjacent(norm: Norm, name: str, vector: str, x: Tensor, good: Tensor) -> None:
    with refused(ValueError, f"{name}: x has stride 4 in its last dimension; accepted is 1"):
        norm(torch.ones(8, 4, device=x.device).t(), good)


@every_norm
@pytest.mark.parametrize("shape", [(7,), (1, 8), ()])
def test_a_vector_of_another_shape(norm: Norm, name: str, vector: str, x: Tensor, shape: tuple[int, ...]) -> None:
    with refused(ValueError, f"{name}: {vector} has shape {shape}; accepted is (8,), the columns of x"):
        norm(x, torch.ones(shape, device=x.device))


@every_norm
def test_a_vector_with_gaps(norm: Norm, name: str, vector: str, x: Tensor) -> None:
    with refused(ValueError, f"{name}: {vector} has stride 2; accepted is 1 (contiguous)"):
        norm(x, torch.ones(16, device=x.device)[::2])


@every_norm
def test_a_gradient_is_followed(norm: Norm, name: str, vector: str, x: Tensor, good: Tensor) -> None:
    assert norm(x.clone().requires_grad_(), good).requires_grad
    assert norm(x, good.clone().requires_grad_()).requires_grad


@every_norm
def test_no_gradient_is_lost_under_no_grad(norm: Norm, name: str, vector: str, x: Tensor, good: Tensor) -> None:
    with torch.no_grad():
        assert not norm(x.clone().requires_grad_(), good).requires_grad


@every_norm
def test_a_tangent_that_would_be_lost(norm: Norm, name: str, vector: str, x: Tensor, good: Tensor) -> None:
    norm(x, good)  # what is known of such tensors must not answer for one with a tangent
    with forward_ad.dual_level():
        norm(x, good)
        with refused(NotImplementedError, f"{name}: x has a tangent, and this kernel has no derivative"):
            norm(forward_ad.make_dual(x, torch.ones_like(x)), good)
        with refused(NotImplementedError, f"{name}: {vector} has a tangent"):
            norm(x, forward_ad.make_dual(good, torch.ones_like(good)))
    with refused(NotImplementedError, f"{name}: x "):
        torch.func.jvp(lambda x: norm(x, good), (x,), (x,))
    with pytest.raises(RuntimeError, match="functorch transforms"):
        torch.func.grad(lambda x: norm(x, good).sum())(x)


@every_norm
def test_tensors_that_do_not_lie_in_memory_by_strides(
    norm: Norm, name: str, vector: str, x: Tensor, good: Tensor
) -> None:
    with refused(ValueError, f"{name}: x has layout torch.sparse_coo; accepted is torch.strided"):
        norm(x.to_sparse(), good)
    with refused(ValueError, f"{name}: {vector} has layout torch.sparse_coo; accepted is torch.strided"):
        norm(x, good.to_sparse())


NORMS_BY_EPS = {
    "rmsnorm": lambda x, eps: rmsnorm(x, x[0], eps),
    "layernorm": lambda x, eps: layernorm(x, x[0], x[0], eps),
    "add_rmsnorm": lambda x, eps: add_rmsnorm(x, x, x[0], eps)[0],
    "rmsnorm_fp8": lambda x, eps: rmsnorm_fp8(x, x[0], eps)[1],
    "rmsnorm_rope": lambda x, eps: rmsnorm_rope(x[None], x[0], *angle_tables(4, 8, device=x.device), eps),
    "qk_norm_rope": lambda x, eps: qk_norm_rope(
        x[None, None], x[None, None], x[0], x[0], *angle_tables(4, 8, device=x.device), eps
    )[0],
}


@pytest.mark.parametrize("name", NORMS_BY_EPS)
def test_an_eps_that_is_none(name: str, x: Tensor) -> None:
    for eps in (None, "1e-6", torch.tensor(1e-6)):
        with refused(TypeError, f"{name}: eps is a {type(eps).__name__}; accepted is a float or an int"):
            NORMS_BY_EPS[name](x, eps)
    for eps in (-1e-6, float("nan"), float("inf")):
        with refused(ValueError, f"{name}: eps is {eps}; accepted are finite numbers from 0"):
            NORMS_BY_EPS[name](x, eps)


def test_a_view_that_stands_for_the_negative_of_its_memory(device: str) -> None:
    z = torch.randn(4, 8, dtype=torch.complex64, device=device)
    assert torch.equal(copy(z.imag), z.imag)  # strided alike
    negative = z.conj().imag
    for call, name in ((copy, "x"), (lambda x: add(z.imag, x), "y")):
        with pytest.raises(ValueError, match=f"{name} is a view of the negative of its memory; accepted are"):
            call(negative)
    assert torch.equal(copy(negative.resolve_neg()), negative)


def test_an_option_that_no_key_can_hold(device: str) -> None:
    x = torch.ones(1, 1, 4, 8, device=device)
    with refused(ValueError, "rope: layout is ['half-split']; accepted are ['half-split', 'interleaved']"):
        rope(x, *angle_tables(4, 8, device=device), layout=["half-split"])  # type: ignore[arg-type]


def test_halves_of_what_is_no_tensor() -> None:
    with refused(TypeError, "halves: packed is a list; accepted is a torch.Tensor"):
        halves([1.0, 2.0])  # type: ignore[arg-type]
