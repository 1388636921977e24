"""How to call an implementation is read out of the definition that was measured."""

import ast

import pytest

from lab.definition.catalogue import load_experiments
from lab.website.pages.snippet import _is_whole, snippet

EVERYTHING = [
    (experiment.name, profile.name, op)
    for experiment in load_experiments()
    if not experiment.self_test
    for profile in experiment.profiles
    for op in profile.implementations
]


@pytest.mark.parametrize(
    ("place", "install", "lines"),
    [
        (
            ("normalization-fusion", "triton-fused-rmsnorm", "rmsnorm"), "pip install -e .",
            ["from lab.kernels.rmsnorm import rmsnorm", "y = rmsnorm(x, weight)"],
        ),
        (
            ("normalization-fusion", "quack", "rmsnorm"), "pip install quack-kernels",
            ["from quack.rmsnorm import rmsnorm_fwd", "y = rmsnorm_fwd(x, weight, eps=1e-06)[0]"],
        ),
        (
            ("fp8-quantization", "triton-fp8", "fp8-group-128"), "pip install -e .",
            ["from lab.kernels.fp8 import quantize_fp8", "y = quantize_fp8(x, 'group')"],
        ),
        (
            ("flash-attention", "triton-flash-attention", "attention-causal"), "pip install -e .",
            ["y = flash_attention(q, k, v, causal=True)"],
        ),
        (
            ("flash-attention", "fa4", "attention-causal"), "pip install flash-attn-4",
            ["from torch import Tensor", "causal = True", "y = attend(q, k, v)"],
        ),
        (
            ("decode-attention", "sdpa-cudnn", "decode-attention"), "pip install -e .",
            ["from torch.nn.attention import SDPBackend", "y = sdpa(q, k, v, backend=SDPBackend.CUDNN_ATTENTION)"],
        ),
(
            ("fp8-gemm", "triton-fp8-matmul", "fp8-gemm-row"), "pip install -e .",
            ["y = fp8_matmul(a, b, a_scale, b_scale, granularity='row', accumulation='fast')"],
        ),
        (
            ("fp8-quantization", "triton-unfused", "rmsnorm-fp8"), "pip install -e .",
            ["from lab.kernels.rmsnorm import rmsnorm", "y = quantize_fp8(rmsnorm(x, weight))"],
        ),
        (
            ("training-backward", "liger-in-place", "rmsnorm-backward"), "pip install liger-kernel",
            ["in_place = True", "y = backward(dy, x, weight, rstd)"],
        ),
        (("matmul-tiling", "torch-matmul", "gemm"), "pip install torch", ["import torch", "y = torch.mm(a, b)"]),
    ],
)  # fmt: skip
def test_a_snippet_imports_and_calls_what_was_measured(place, install, lines):
    call = snippet(*place)
    assert call is not None
    assert call.install == install
    assert [line for line in lines if line not in call.code.splitlines()] == []


def test_what_torch_compile_was_given_is_shown_whole_with_its_options():
    call = snippet("softmax-fusion", "torch-compile", "softmax")
    assert call is not None
    names: dict[str, object] = {}
    exec(call.code.rpartition("\n")[0], names)  # defines and compiles; nothing is called yet
    assert callable(names["fast"])
    assert "dynamic=False" in call.code


@pytest.mark.parametrize("place", EVERYTHING, ids="/".join)
def test_every_snippet_is_python_that_imports_before_it_calls(place):
    call = snippet(*place)
    if call:
        tree = ast.parse(call.code)
        assert any(isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body), call.code


def test_every_kernel_of_the_lab_that_a_headline_is_about_has_one():
    without = [
        (experiment.name, claim.subject.name, case.operator.name)
        for experiment in load_experiments()
        if not experiment.self_test and experiment.name != "configuration-search"
        for claim in experiment.headlines
        for case in claim.cases
        if claim.subject.kernels and not snippet(experiment.name, claim.subject.name, case.operator.name)
    ]
    assert without == []


def test_what_nobody_defines_has_none():
    assert snippet("no-such-experiment", "triton", "rmsnorm") is None
    assert snippet("normalization-fusion", "triton-fused-rmsnorm", "softmax") is None


def test_what_calls_a_function_that_it_does_not_import_has_none():
    whole = "from lab.kernels.copy import copy\ny = copy(x)"
    assert _is_whole(whole)
    assert not _is_whole(whole + "\nz = for_each_shape(copy)")
    assert not _is_whole("from lab.kernels.copy import copy\ny = copy(x, configuration=chosen)")
    assert not _is_whole("def f(x):\n    return x + shift\ny = f(x)")
    assert _is_whole("from lab.kernels.add import add\ny = add(x, y)")
    assert _is_whole("from lab.kernels.add import add\ny = add(x, other=y)", names=["x", "y"])
    made = [each for each in EVERYTHING if each[0] == "decode-step"]
    assert made
    assert not any(snippet(*each) for each in made if "graph" in each[1])
