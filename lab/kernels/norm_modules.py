"""RMSNorm and LayerNorm modules that replace those of torch.nn in a model.

They take the same arguments and load the same state dicts: parameters have the same names and shapes. They can be
trained: gradients come from kernels too. Where no kernel runs, as on a CPU or a meta device, they compute PyTorch's own
norms.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.kernels.checks import runs_here
from lab.kernels.layernorm import layernorm
from lab.kernels.rmsnorm import rmsnorm

Device = torch.device | str | None


class RMSNorm(nn.Module):
    """y = x / sqrt(mean(x²) + eps) · weight over the last dimension of x: see `rmsnorm`.

    normalized_shape: the columns N, a number or a sequence of one. eps: a number; ValueError for None, which means the
    machine epsilon in torch.nn. elementwise_affine: whether there is a weight.
    """

    weight: Tensor

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-6,
        elementwise_affine: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _columns("RMSNorm", normalized_shape)
        self.eps = _checked("RMSNorm", eps)
        self.elementwise_affine = elementwise_affine
        _add_vector(self, "weight", elementwise_affine, device, dtype)
        self.reset_parameters()

    @classmethod
    def from_torch(cls, module: nn.RMSNorm) -> "RMSNorm":
        """A norm equal to `module`, which shares its weight.

        ValueError if its eps is None: PyTorch then uses the machine epsilon of each input's dtype, and this class does
        not.
        """
        if module.eps is None:
            raise ValueError(
                "RMSNorm.from_torch: the module's eps is None, for which PyTorch takes the machine epsilon of each "
                "input's dtype; accepted is a number: set the module's eps first"
            )
        norm = cls(module.normalized_shape, _checked("RMSNorm", module.eps), module.elementwise_affine)
        _take_over(norm, module)
        return norm

    def reset_parameters(self) -> None:
        """Set the weight to ones. Needed after `to_empty`, as with torch.nn's modules."""
        nn.init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        if not runs_here(x):
            return F.rms_norm(x, self.normalized_shape, self._parameters.get("weight"), self.eps)
        return rmsnorm(x, _beside(x, self, "weight"), self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LayerNorm(nn.Module):
    """y = (x − mean(x)) / sqrt(var(x) + eps) · weight + bias over the last dimension of x: see `layernorm`.

    normalized_shape: the columns N, a number or a sequence of one. elementwise_affine: whether there is a weight, and
    with `bias` also a bias.
    """

    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _columns("LayerNorm", normalized_shape)
        self.eps = _checked("LayerNorm", eps)
        self.elementwise_affine = elementwise_affine
        _add_vector(self, "weight", elementwise_affine, device, dtype)
        _add_vector(self, "bias", elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    @classmethod
    def from_torch(cls, module: nn.LayerNorm) -> "LayerNorm":
        """A norm equal to `module`, which shares its parameters."""
        norm = cls(module.normalized_shape, module.eps, module.elementwise_affine, module.bias is not None)
        _take_over(norm, module)
        return norm

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros. Needed after `to_empty`, as with torch.nn's modules."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        if not runs_here(x):
            loaded = self._parameters
            return F.layer_norm(x, self.normalized_shape, loaded.get("weight"), loaded.get("bias"), self.eps)
        return layernorm(x, _beside(x, self, "weight"), _beside(x, self, "bias"), self.eps)

    def extra_repr(self) -> str:
        has_bias = "bias" in self._parameters
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={has_bias}"


def _columns(norm: str, normalized_shape: int | Sequence[int]) -> tuple[int]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if len(shape) != 1:
        raise ValueError(f"{norm}: normalized_shape is {shape}; accepted is one dimension, the last of x")
    return shape


def _checked(norm: str, eps: float | None) -> float:
    if eps is None:
        raise ValueError(f"{norm}: eps is None; accepted is a number")
    return eps


def _add_vector(
    module: "RMSNorm | LayerNorm", name: str, loaded: bool, device: Device, dtype: torch.dtype | None
) -> None:
    """Add a parameter or, if there is none, a constant for the kernels that moves with the module and is not saved."""
    vector = torch.empty(module.normalized_shape, device=device, dtype=dtype)
    if loaded:
        module.register_parameter(name, nn.Parameter(vector))
    else:
        module.register_buffer(name, vector, persistent=False)


def _beside(x: Tensor, module: nn.Module, name: str) -> Tensor:
    """The vector `name` of `module`. A constant is moved to the device of `x`, because torch.nn's modules without
    parameters work on every device too; not to meta, where its values would be lost."""
    vector: Tensor = getattr(module, name)
    if vector.device != x.device and not x.is_meta and name in module._buffers:
        vector = vector.to(x.device)
        module.register_buffer(name, vector, persistent=False)
    return vector


def _take_over(norm: nn.Module, module: nn.Module) -> None:
    """Give `norm` the parameters of `module`, and its mode."""
    for name, parameter in module.named_parameters():
        norm.register_parameter(name, parameter)
    norm.train(module.training)
