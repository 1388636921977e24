"""The operators as other people's code meets them: compiled, exported, on meta tensors, off the GPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.kernels import checks
from lab.kernels.add_rmsnorm import add_rmsnorm
from lab.kernels.copy import copy
from lab.kernels.fp8 import quantize_fp8
from lab.kernels.glu import geglu_erf, geglu_tanh, swiglu
from lab.kernels.glu_backward import geglu_erf_backward, geglu_tanh_backward, swiglu_backward
from lab.kernels.glu_module import SwiGLU
from lab.kernels.launch import Configuration
from lab.kernels.layernorm import layernorm
from lab.kernels.library import NAMESPACE
from lab.kernels.norm_backward import add_rmsnorm_backward, layernorm_backward, rmsnorm_backward
from lab.kernels.norm_modules import LayerNorm, RMSNorm
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.rmsnorm_fp8 import rmsnorm_fp8
from lab.kernels.rmsnorm_rope import qk_norm_rope, rmsnorm_rope
from lab.kernels.rope import Rope, angle_tables, rope, rope_, rope_qk, rope_qk_
from lab.kernels.softmax import softmax
from lab.kernels.softmax_backward import softmax_backward

FLOAT8 = torch.float8_e4m3fn


def drawn(*shape: int, device: str) -> Tensor:
    return torch.randn(shape, device=device, generator=torch.Generator(device).manual_seed(1))


def asked(device: str) -> list[tuple[Callable[..., Any], tuple[Tensor, ...], tuple[Any, ...]]]:
    """Of every operator: its entry point, tensors to call it on, and what its registered form takes beside them."""
    x, weight = drawn(6, 24, device=device), drawn(24, device=device)
    head_weight = drawn(8, device=device)
    q, k, packed = (drawn(1, heads, 3, 8, device=device) for heads in (2, 1, 4))
    angles = angle_tables(3, 8, device=device)
    turned = ("half-split", False)
    return [
        (rmsnorm, (x, weight), (1e-6,)),
        (layernorm, (x, weight, weight), (1e-5,)),
        (add_rmsnorm, (x, x + 1, weight), (1e-6,)),
        (softmax, (x,), ()),
        (swiglu, (x, x + 1), ()),
        (geglu_erf, (x, x + 1), ()),
        (geglu_tanh, (x, x + 1), ()),
        (rope, (q.transpose(1, 2).contiguous().transpose(1, 2), *angles), turned),
        (rope_, (packed, *angles), turned),
        (rope_qk, (q, k, *angles), turned),
        (rope_qk_, (q, k, *angles), turned),
        (rmsnorm_rope, (drawn(1, 3, 16, device=device), drawn(16, device=device), *angles), (1e-6, 0, "half-split")),
        (qk_norm_rope, (q, k, head_weight, head_weight, *angles), (1e-6, "half-split")),
        (quantize_fp8, (x,), ("row", FLOAT8, 128)),
        (rmsnorm_fp8, (x, weight), (1e-6, FLOAT8)),
        (rmsnorm_backward, (x + 2, x, weight), (1e-6,)),
        (layernorm_backward, (x + 2, x, weight), (1e-5,)),
        (add_rmsnorm_backward, (x + 2, x + 3, x, weight), (1e-6,)),
        (softmax_backward, (x + 2, x), ()),
        (swiglu_backward, (x + 2, x, x + 1), ()),
        (geglu_erf_backward, (x + 2, x, x + 1), ()),
        (geglu_tanh_backward, (x + 2, x, x + 1), ()),
    ]


NAMES = [call.__name__ for call, *_ in asked("cpu")]


def copies(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(tensor.clone() for tensor in tensors)


def same(actual: Any, expected: Any) -> None:
    for mine, wanted in zip(*((x if isinstance(x, tuple) else (x,)) for x in (actual, expected)), strict=True):
        assert (mine.shape, mine.stride(), mine.dtype) == (wanted.shape, wanted.stride(), wanted.dtype)
        if not mine.is_meta:
            torch.testing.assert_close(mine.float(), wanted.float())


def test_every_registered_operator_is_asked() -> None:
    registered = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith(f"{NAMESPACE}::")}
    assert registered == {f"{NAMESPACE}::{name}" for name in NAMES}


@pytest.mark.parametrize("place", range(len(NAMES)), ids=NAMES)
def test_pytorch_finds_nothing_wrong_with_an_operator(place: int, device: str) -> None:
    call, tensors, rest = asked(device)[place]
    operator = getattr(torch.ops.kernel_evidence_lab, call.__name__).default
    results = torch.library.opcheck(operator, (*tensors, *rest))
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("place", range(len(NAMES)), ids=NAMES)
def test_compiled_without_a_break_it_gives_the_same(place: int, device: str) -> None:
    call, tensors, _ = asked(device)[place]
    compiled = torch.compile(lambda *tensors: call(*tensors), fullgraph=True, backend="aot_eager")
    same(compiled(*copies(tensors)), call(*copies(tensors)))
    torch.compiler.reset()


@pytest.mark.parametrize("place", range(len(NAMES)), ids=NAMES)
def test_on_meta_tensors_it_answers_with_shapes(place: int, device: str) -> None:
    call, tensors, _ = asked(device)[place]
    actual = call(*(tensor.to("meta") for tensor in tensors))
    expected = call(*copies(tensors))
    same(actual, tuple(x.to("meta") for x in expected) if isinstance(expected, tuple) else expected.to("meta"))


def test_a_model_of_them_is_exported_and_runs(device: str) -> None:
    class NormAndRope(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = RMSNorm(8, device=device)
            self.rope = Rope(8, 16, device=device)

        def forward(self, x: Tensor) -> Tensor:
            heads = self.norm(x).unflatten(0, (1, 1, 5))
            return softmax(self.rope(heads, heads)[0] + x)

    x = drawn(5, 8, device=device)
    with torch.no_grad():
        block = NormAndRope()
        exported = torch.export.export(block, (x,))
        torch.testing.assert_close(exported.module()(x), block(x))
    called = {str(node.target) for node in exported.graph.nodes if "kernel_evidence_lab" in str(node.target)}
    assert called == {f"kernel_evidence_lab.{name}.default" for name in ("rmsnorm", "rope_qk", "softmax")}


def test_what_is_not_registered_breaks_the_graph_and_gives_the_same(device: str) -> None:
    chosen = Configuration.of(ROWS=1, BLOCK=32, num_warps=1)

    def model(x: Tensor, weight: Tensor) -> Tensor:
        return copy(rmsnorm(x * 2, weight, configuration=chosen) + 1) * 2

    x, weight = drawn(6, 24, device=device), drawn(24, device=device)
    torch.testing.assert_close(torch.compile(model, backend="aot_eager")(x, weight), model(x, weight))
    torch.compiler.reset()


TRAINABLE = ("rmsnorm", "layernorm", "add_rmsnorm", "softmax", "swiglu", "geglu_erf", "geglu_tanh", "rope", "rope_qk")


@pytest.mark.parametrize("name", TRAINABLE)
def test_pytorch_finds_nothing_wrong_with_a_gradient(name: str, device: str) -> None:
    call, tensors, rest = asked(device)[NAMES.index(name)]
    leaves = 2 if name == "rope_qk" else 1 if name == "rope" else len(tensors)
    inputs = [each.detach().clone().requires_grad_(place < leaves) for place, each in enumerate(tensors)]
    operator = getattr(torch.ops.kernel_evidence_lab, name).default
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    assert set(torch.library.opcheck(operator, (*inputs, *rest), test_utils=tests).values()) == {"SUCCESS"}

    def summed(*inputs: Tensor) -> Tensor:
        results = call(*inputs)
        return sum((each * each).sum() for each in (results if isinstance(results, tuple) else (results,)))

    wanted = tuple(inputs[:leaves])
    eager = torch.autograd.grad(summed(*inputs), wanted)
    by_library = torch.autograd.grad(
        sum((each * each).sum() for each in (lambda r: r if isinstance(r, tuple) else (r,))(operator(*inputs, *rest))),
        wanted,
    )
    for one, other in zip(eager, by_library, strict=True):
        torch.testing.assert_close(one, other)


def test_a_compiled_gradient_is_that_of_the_eager_call(device: str) -> None:
    x = drawn(6, 24, device=device).requires_grad_()
    compiled = torch.compile(lambda x: (softmax(x * 2) ** 2).sum(), fullgraph=True, backend="aot_eager")
    (mine,) = torch.autograd.grad(compiled(x), x)
    (eager,) = torch.autograd.grad((softmax(x * 2) ** 2).sum(), x)
    torch.testing.assert_close(mine, eager)
    torch.compiler.reset()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel runs on the CPU."""
    monkeypatch.setattr(checks, "interpreting", lambda: False)


@pytest.mark.usefixtures("elsewhere")
def test_where_no_kernel_runs_modules_are_those_of_pytorch() -> None:
    x = drawn(3, 8, device="cpu").requires_grad_()
    assert torch.equal(RMSNorm(8, eps=1e-5)(x), F.rms_norm(x, (8,), None, 1e-5))
    assert torch.equal(LayerNorm(8, bias=False)(x), F.layer_norm(x, (8,)))
    assert torch.equal(LayerNorm(8, elementwise_affine=False)(x), F.layer_norm(x, (8,)))
    layer = SwiGLU(8, 12)
    gate, up = layer.gate_proj(x), layer.up_proj(x)
    assert torch.equal(layer(x), layer.down_proj(F.silu(gate) * up))
    layer(RMSNorm(8)(x)).sum().backward()
    assert x.grad is not None
    with pytest.raises(ValueError, match="x is on cpu"):
        rmsnorm(x.detach(), torch.ones(8))


@pytest.mark.parametrize("layout", ["half-split", "interleaved"])
def test_where_no_kernel_runs_heads_are_turned_alike(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k = drawn(2, 4, 5, 16, device="cpu"), drawn(2, 1, 5, 16, device="cpu")
    turn = Rope(16, 32, rotary_dim=8, layout=layout)
    monkeypatch.setattr(checks, "interpreting", lambda: True)
    by_kernel = turn(q, k, 3)
    monkeypatch.setattr(checks, "interpreting", lambda: False)
    for mine, theirs in zip(turn(q, k, 3), by_kernel, strict=True):
        torch.testing.assert_close(mine, theirs)
