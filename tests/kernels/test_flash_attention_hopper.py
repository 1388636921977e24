"""The machine code that the kernel for Hopper becomes: what is fast about it is nowhere in its source."""

import json
from typing import Any

import pytest
import torch
from compiled import printed

from lab.kernels.flash_attention import flash_attention_inputs
from lab.kernels.flash_attention_hopper import HopperLaunch, hopper_rule
from lab.kernels.launch import Configuration, Launch

HEADS_AND_FEATURES = ((1, 64), (64, 64), (64, 128), (64, 256))  # few heads get fewer warpgroups
COMPILING = """
import json, sys
import triton.experimental.gluon.language as gl
from triton.backends.compiler import GPUTarget
from triton.compiler import compile
from triton.experimental.gluon._runtime import GluonASTSource
from triton.tools.disasm import get_sass
from lab.kernels.flash_attention_hopper import COUNTS, _flash_attention_hopper_kernel as kernel

def described(rows, features):
    block = [1, 1, rows, features]
    return f"tensordesc<bf16{block},{gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16)!r}>"

for features, constants, stages in json.load(sys.stdin):
    q, k = described(64, features), described(constants["KEYS"], features)
    constants |= {"RATIO": 1, "D": features, "STAGES": stages, "LEFT": False, "RAGGED": False}
    signature = dict(zip(("q_desc", "k_desc", "v_desc", "o_desc", "lse_ptr", "scale"), (q, k, k, q, "*fp32", "fp32")))
    signature |= dict.fromkeys(COUNTS, "i32") | dict.fromkeys(constants, "constexpr")
    signature = {name: signature[name] for name in kernel.arg_names}
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = GluonASTSource(kernel, signature, places)
    compiled = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    print(json.dumps(get_sass(compiled.asm["cubin"])))
"""


def rule_for(heads: int, features: int) -> Configuration:
    return hopper_rule((1, heads, heads, 8192, features), 2)


@pytest.fixture(scope="module")
def listings(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], list[str]]:
    """The code for an H100, which is not needed for this, by heads and features: without a mask and with one.

    It is compiled in a process of its own: in this one kernels are interpreted.
    """
    asked = [
        (heads, features, dict(chosen.constants) | {"RIGHT": right, "TURNS": bool(chosen["TURNS"])}, chosen.num_stages)
        for heads, features in HEADS_AND_FEATURES
        for chosen in [rule_for(heads, features)]
        for right in (False, True)
    ]
    lines = printed(COMPILING, [each[1:] for each in asked], cache=tmp_path_factory.mktemp("cache")).splitlines()
    made: dict[tuple[int, int], list[str]] = {key: [] for key in HEADS_AND_FEATURES}
    for (heads, features, *_), listing in zip(asked, lines, strict=True):
        made[heads, features].append(json.loads(listing))
    return made


@pytest.mark.parametrize("key", HEADS_AND_FEATURES)
def test_it_multiplies_by_warpgroups_and_spills_no_register(
    key: tuple[int, int], listings: dict[tuple[int, int], list[str]]
) -> None:
    assert len(listings[key]) == 2
    for code in listings[key]:
        assert "HGMMA" in code
        assert "STL" not in code
        assert code.count("USETMAXREG") >= rule_for(*key)["WARPGROUPS"]


def test_a_call_describes_its_own_tensors_to_the_copy_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(Launch, "__call__", lambda self, *arguments: seen.append(arguments))
    shape = (2, 4, 2, 600, 128)
    first, second = (flash_attention_inputs(shape, torch.bfloat16, "cpu", seed) for seed in (1, 2))
    launch = HopperLaunch(*first, torch.empty_like(first[0]), None, 0, 1, hopper_rule(shape, 2))
    for tensors in (first, second):
        o, lse = torch.empty_like(tensors[0]), torch.empty(tensors[0].shape[:3])
        launch(*tensors, o, lse, 0.1)
        *described, lse_passed, scale = seen.pop()
        assert all(one.base is tensor for one, tensor in zip(described, (*tensors, o), strict=True))
        assert [one.block_shape[2] for one in described] == [64, 128, 128, 64]
        assert [one.shape[1] for one in described] == [4, 2, 2, 4]
        assert (lse_passed is lse, scale) == (True, 0.1)
