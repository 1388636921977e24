import re
import textwrap

import pytest
import torch
from accuracy import DTYPES
from compiled import printed

from lab.kernels.chain import OVERHEAD_STEPS, chain, chain_inputs, chain_reference, chain_traffic, extra_steps


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("steps", [0, 1, 3, 4, 101])
def test_the_result_is_the_input_to_the_last_bit_for_any_number_of_steps(
    steps: int, dtype: torch.dtype, device: str
) -> None:
    x, steps = chain_inputs((300, steps), dtype, device, seed=1)
    y = chain(x, steps)
    assert torch.equal(y, x)
    assert y.dtype == dtype
    assert y.data_ptr() != x.data_ptr()
    assert torch.equal(chain_reference(x, steps), x.double())


def test_zeros_large_and_special_values_stay_as_they_are(device: str) -> None:
    x = torch.tensor([0.0, -0.0, 3e38, -3e38, 1e-37, float("inf"), float("-inf"), float("nan")], device=device)
    assert torch.equal(chain(x, 9).nan_to_num(nan=7.0), x.nan_to_num(nan=7.0))


@pytest.mark.parametrize("elements", [0, 1, 127, 128, 129])
def test_any_number_of_elements(elements: int, device: str) -> None:
    x = torch.arange(elements, dtype=torch.float32, device=device)
    assert torch.equal(chain(x, 5), x)


def test_what_it_refuses(device: str) -> None:
    x = torch.ones(8, device=device)
    with pytest.raises(TypeError, match=r"chain: x is a list; accepted is a torch\.Tensor"):
        chain([1.0], 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"chain: x has shape \(2, 4\); accepted is \(elements,\), contiguous"):
        chain(x.view(2, 4), 1)
    with pytest.raises(ValueError, match=r"chain: x has shape \(4,\); accepted is \(elements,\), contiguous"):
        chain(x[::2], 1)
    with pytest.raises(ValueError, match="chain: steps is -1; accepted are 0 to 2147483647"):
        chain(x, -1)
    with pytest.raises(NotImplementedError, match="chain: x requires grad"):
        chain(x.requires_grad_(), 1)


@pytest.mark.parametrize("share", [0.01, 0.02, 0.05])
@pytest.mark.parametrize("steps", [8_000, 190_000])
def test_the_extra_steps_lengthen_the_whole_call_by_their_share(steps: int, share: float) -> None:
    extra = extra_steps(steps, share)
    assert extra / (steps + OVERHEAD_STEPS) == pytest.approx(share, rel=0.025)
    assert extra % 4 == 0, "the loop is unrolled by four; a remainder would take another path"


def test_the_traffic_is_one_read_and_one_write_and_two_operations_a_step() -> None:
    traffic = chain_traffic((16_384, 1000), itemsize=4)
    assert (traffic.read_bytes, traffic.written_bytes, traffic.flops) == (65_536, 65_536, 32_768_000)


COMPILE = """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from lab.kernels.chain import _chain_kernel

    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "elements": "i32", "steps": "i32"}
    source = ASTSource(fn=_chain_kernel, signature=signature, constexprs={"BLOCK": 128})
    print(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"])
"""


def test_the_compiler_keeps_the_loop_and_its_one_dependent_step() -> None:
    """Compiled for an H100, which needs none: a loop that counts down and does one multiply-add on its own result."""
    ptx = printed(textwrap.dedent(COMPILE))
    loop = re.search(r"(\$L__BB\d+_\d+):[^$]*?fma\.rn\.f32\s+(%r\d+), (%r\d+), [^$]*?bra\s+\1;", ptx)
    assert loop, ptx
    assert loop[2] == loop[3], "a step does not work on the result of the step before"
    assert loop[0].count("fma.rn.f32") == 1
