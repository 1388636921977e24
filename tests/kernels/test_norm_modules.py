"""The modules stand where torch.nn's stood: the same arguments, state and results, forward only."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lab.kernels.norm_modules import LayerNorm, RMSNorm

OURS = {nn.RMSNorm: RMSNorm, nn.LayerNorm: LayerNorm}
PAIRS = [
    pytest.param(nn.RMSNorm, {"eps": 1e-6}, id="rms"),
    pytest.param(nn.RMSNorm, {"eps": 1e-3, "elementwise_affine": False}, id="rms without weight"),
    pytest.param(nn.LayerNorm, {}, id="layer"),
    pytest.param(nn.LayerNorm, {"bias": False}, id="layer without bias"),
    pytest.param(nn.LayerNorm, {"elementwise_affine": False}, id="layer without weight and bias"),
]
every_pair = pytest.mark.parametrize(("kind", "arguments"), PAIRS)


def trained(kind: type[nn.Module], arguments: dict[str, Any], device: str) -> nn.Module:
    """Theirs, with parameters that are not those it began with."""
    module = kind(48, **arguments, device=device)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


@pytest.fixture
def x(device: str) -> Tensor:
    return torch.randn(2, 5, 48, generator=torch.Generator(device).manual_seed(1), device=device)


@every_pair
def test_what_theirs_saved_loads_into_ours_and_back(
    kind: Any, arguments: dict[str, Any], x: Tensor, device: str
) -> None:
    theirs, ours = trained(kind, arguments, device), OURS[kind](48, **arguments, device=device)
    ours.load_state_dict(theirs.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x))
    kind(48, **arguments).load_state_dict(ours.state_dict())


@every_pair
def test_one_made_from_theirs_gives_the_same_on_the_same_memory(
    kind: Any, arguments: dict[str, Any], x: Tensor, device: str
) -> None:
    theirs = trained(kind, arguments, device).eval()
    ours = OURS[kind].from_torch(theirs)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x))
    assert not ours.training
    for name, parameter in theirs.named_parameters():
        assert ours.get_parameter(name).data_ptr() == parameter.data_ptr()
        assert parameter.requires_grad


@every_pair
def test_a_fresh_one_does_as_a_fresh_one_of_theirs(
    kind: Any, arguments: dict[str, Any], x: Tensor, device: str
) -> None:
    torch.testing.assert_close(OURS[kind](48, **arguments, device=device)(x), kind(48, **arguments, device=device)(x))


@every_pair
def test_it_moves_to_another_dtype_as_modules_do(kind: Any, arguments: dict[str, Any], x: Tensor, device: str) -> None:
    theirs = trained(kind, arguments, device).half()
    ours = OURS[kind].from_torch(trained(kind, arguments, device)).half()
    ours.load_state_dict(theirs.state_dict())
    assert {tensor.dtype for tensor in (*ours.parameters(), *ours.buffers())} == {torch.float16}
    torch.testing.assert_close(ours(x.half()), theirs(x.half()).detach(), rtol=2e-3, atol=2e-3)


@every_pair
def test_made_without_memory_it_is_filled_as_theirs_is(
    kind: Any, arguments: dict[str, Any], x: Tensor, device: str
) -> None:
    theirs = trained(kind, arguments, device)
    ours = OURS[kind](48, **arguments, device="meta").to_empty(device=device)
    ours.reset_parameters()
    ours.load_state_dict(theirs.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x))


def test_it_can_be_trained(x: Tensor, device: str) -> None:
    for module in (RMSNorm(48, device=device), LayerNorm(48, device=device)):
        leaf = x.clone().requires_grad_()
        module(leaf).sum().backward()
        assert leaf.grad is not None
        assert all(parameter.grad is not None for parameter in module.parameters())
        with torch.no_grad():
            assert not module(x).requires_grad


def test_more_than_one_dimension_and_no_eps_are_refused() -> None:
    with pytest.raises(ValueError, match=r"LayerNorm: normalized_shape is \(2, 3\); accepted is one dimension"):
        LayerNorm((2, 3))
    with pytest.raises(ValueError, match=r"the module's eps is None, for which PyTorch takes the machine epsilon"):
        RMSNorm.from_torch(nn.RMSNorm(8))
    assert RMSNorm([8]).normalized_shape == RMSNorm(8).normalized_shape == (8,)


def test_it_prints_as_theirs_does() -> None:
    assert repr(LayerNorm(8)) == "LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=True)"
    assert repr(LayerNorm(8, bias=False)) == "LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=False)"


@pytest.mark.parametrize("norm", [RMSNorm, LayerNorm])
def test_an_input_without_values_gives_a_shape_and_the_constants_keep_theirs(norm: Any, device: str) -> None:
    module = norm(23, elementwise_affine=False, device=device)
    x = torch.randn(2, 23, device=device)
    y = module(x.to("meta"))
    assert y.is_meta
    assert y.shape == x.shape
    assert torch.equal(module(x), norm(23, elementwise_affine=False, device=device)(x))
