"""Activation functions that the lab's kernels apply to single elements, in float32."""

import math

import torch
import triton
import triton.language as tl

from lab.kernels.exponential import exponential

# σ(z) = 1 / (1 + 2^(−z log₂e)): the GPU has one instruction for 2^x and computes every other exponential with it.
SIGMOID_POWER = tl.constexpr(-math.log2(math.e))
TANH_POWER = tl.constexpr(-2 * math.sqrt(2 / math.pi) * math.log2(math.e))
TANH_CUBIC = tl.constexpr(0.044715)
TANH_SLOPE = tl.constexpr(2 * math.sqrt(2 / math.pi))
DENSITY_AT_ZERO = tl.constexpr(1 / math.sqrt(2 * math.pi))
ROOT_HALF = tl.constexpr(math.sqrt(0.5))


@triton.jit
def relu(z):
    return tl.where(z < 0, 0.0, z)  # NaN stays NaN


@triton.jit
def silu(z):
    return z / (1 + tl.exp2(z * SIGMOID_POWER))


@triton.jit
def silu_exact(z):
    """silu for a result in float32, exact to a few epsilons down to −88.7; below it gives 0, as in PyTorch."""
    return z / (1 + exponential(-z, True))


@triton.jit
def gelu_erf(z):
    return 0.5 * z * (1 + tl.erf(z * ROOT_HALF))


@triton.jit
def gelu_tanh(z):
    return z / (1 + tl.exp2((z + z * z * z * TANH_CUBIC) * TANH_POWER))


@triton.jit
def silu_slope(z):
    """(silu, its derivative) at z."""
    sigmoid = 1 / (1 + tl.exp2(z * SIGMOID_POWER))
    return z * sigmoid, sigmoid * (1 + z * (1 - sigmoid))


@triton.jit
def silu_slope_exact(z):
    """silu_slope for results in float32."""
    sigmoid = 1 / (1 + exponential(-z, True))
    return z * sigmoid, sigmoid * (1 + z * (1 - sigmoid))


@triton.jit
def gelu_erf_slope(z):
    """(gelu_erf, its derivative) at z."""
    below = 0.5 * (1 + tl.erf(z * ROOT_HALF))
    return z * below, below + z * (tl.exp2(z * z * (0.5 * SIGMOID_POWER)) * DENSITY_AT_ZERO)


@triton.jit
def gelu_tanh_slope(z):
    """(gelu_tanh, its derivative) at z."""
    below = 1 / (1 + tl.exp2((z + z * z * z * TANH_CUBIC) * TANH_POWER))
    inner = (1 + 3 * TANH_CUBIC * z * z) * TANH_SLOPE
    # Where z³ exceeds the range of float32, below is 0 or 1, and infinity times zero would be NaN.
    bend = below * (1 - below)
    return z * below, below + tl.where(bend == 0, 0.0, z * bend * inner)


ACTIVATIONS = {"none": None, "relu": relu, "silu": silu, "gelu-erf": gelu_erf, "gelu-tanh": gelu_tanh}


def activation_reference(name: str, z: torch.Tensor) -> torch.Tensor:
    """PyTorch's result for the activation `name`, in the dtype of z."""
    functional = torch.nn.functional
    if name == "none":
        return z
    if name == "gelu-tanh":
        return functional.gelu(z, approximate="tanh")
    if name == "gelu-erf":
        return functional.gelu(z)
    return functional.silu(z) if name == "silu" else functional.relu(z)


def checked_activation(op: str, name: str, accepted: tuple[str, ...] = tuple(ACTIVATIONS)) -> triton.JITFunction | None:
    """The function for the activation `name`. ValueError if `name` is not in `accepted`."""
    if name not in accepted:
        raise ValueError(f"{op}: activation is {name!r}; accepted are {list(accepted)}")
    return ACTIVATIONS[name]
