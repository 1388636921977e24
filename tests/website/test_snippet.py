"""How to call an implementation is read out of the definition that was measured."""

import ast
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from experiments import decode_attention, flash_attention, gpu_ceilings
from lab.definition.catalogue import load_experiments
from lab.website.pages.call_inputs import input_names
from lab.website.pages.made_before import made_before
from lab.website.pages.snippet import _is_whole, snippet
from lab.website.pages.written_out import written_out

EVERYTHING = [
    (experiment.name, profile.name, op)
    for experiment in load_experiments()
    if not experiment.self_test
    for profile in experiment.profiles
    for op in profile.implementations
]

OPERATORS = {case.operator.name: case.operator for experiment in load_experiments() for case in experiment.cases}


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
            ("decode-attention", "sdpa-cudnn", "decode-attention"), "pip install torch",
            ["from torch.nn.attention import SDPBackend, sdpa_kernel",
             "with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):",
             "    o = F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=q.shape[1] != k.shape[1])",
             "y = o[:, :, 0]"],
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
        (
            ("fp8-gemm", "torch-scaled-mm", "fp8-gemm-block"), "pip install torch",
            ["import torch", "turned = a_scale.t().contiguous().t()  # once, beforehand",
             "y = torch._scaled_mm(a, b.t(), scale_a=turned, scale_b=b_scale.t(), out_dtype=torch.bfloat16)"],
        ),
        (
            ("rmsnorm-linear", "triton-folded", "rmsnorm-linear"), "pip install -e .",
            ["from lab.kernels.rmsnorm_linear import fold_norm_weight, rmsnorm_linear",
             "folded = fold_norm_weight(norm_weight, weight)  # once, beforehand",
             "y = rmsnorm_linear(x, None, folded, constant_weight=True)"],
        ),
        (("matmul-tiling", "torch-matmul", "gemm"), "pip install torch", ["import torch", "y = torch.mm(a, b)"]),
    ],
)  # fmt: skip
def test_a_snippet_imports_and_calls_what_was_measured(place, install, lines):
    call = snippet(*place)
    assert call is not None
    assert call.install == install
    assert [line for line in lines if line not in call.code.splitlines()] == []


@pytest.mark.parametrize(
    "place", [("fp8-gemm", "torch-dequantised", "fp8-gemm-block"), ("fp8-gemm", "torch-scaled-mm", "fp8-gemm-block")]
)
def test_an_input_is_made_beforehand_only_where_the_call_reads_it(place):
    call = snippet(*place)
    assert call is not None
    assert ("turned = " in call.code, "turned" in call.made) == (place[1] != "torch-dequantised",) * 2


def test_what_torch_compile_was_given_is_shown_whole_with_its_options():
    call = snippet("softmax-fusion", "torch-compile", "softmax")
    assert call is not None
    names: dict[str, object] = {}
    exec(call.code.rpartition("\n")[0], names)  # defines and compiles; nothing is called yet
    assert callable(names["fast"])
    assert "dynamic=False" in call.code


# What needs PyTorch alone, and what a CPU can run or would run with another backend.
ON_CPU = [
    (experiment.name, profile, case)
    for experiment in load_experiments()
    for case in {case.operator.name: case for case in experiment.cases}.values()
    for profile in experiment.profiles
    if not experiment.self_test
    and case.operator.name in profile.implementations
    and (call := snippet(experiment.name, profile.name, case.operator.name))
    and call.install == "pip install torch"
    and not profile.recompiles
    and case.operator.name not in ("rmsnorm-backward", "matmul", "fp8-gemm-block")
]
SIZES = {2: (16, 256), 3: (16, 256, 128), 4: (2, 6, 32, 64), 5: (2, 8, 4, 32, 64), 6: (2, 8, 4, 24, 48, 64)}


@pytest.mark.parametrize(("experiment", "profile", "case"), ON_CPU, ids=lambda each: getattr(each, "name", each))
def test_what_needs_pytorch_alone_runs_as_printed_and_gives_what_was_measured(experiment, profile, case, monkeypatch):
    backends = []

    def any_backend(chosen):
        backends.append(chosen)
        return nullcontext()

    for module in (torch.nn.attention, flash_attention, decode_attention):
        monkeypatch.setattr(module, "sdpa_kernel", any_backend)
    ungrouped = profile.name == "torch-baseline" and len(case.shape) == 5
    sizes = (2, 4, 4, 32, 64) if ungrouped else SIZES[len(case.shape)]
    inputs = case.operator.inputs(sizes, torch.float32, "cpu", 0)
    call = snippet(experiment, profile.name, case.operator.name)
    names = dict(zip(input_names(case), inputs, strict=True))
    assert set(call.inputs) <= names.keys()
    exec(call.code, names)
    called, made = list(backends), names["y"]
    wanted = profile.implementations[case.operator.name]()(*inputs)
    torch.testing.assert_close(made, wanted, rtol=0, atol=0)
    if profile.name.startswith("sdpa-"):
        assert [[each.name.partition("_")[0].lower() for each in chosen] for chosen in called] == [[profile.name[5:]]]


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


CHOOSES = """
def chosen(x, fast, kind):
    "Words."
    ways = [kind] if x.is_cuda else []
    if kind == Kind.SLOW:
        x = x.clone()
    with using(ways):
        return double(x, fast=fast)
"""


def test_a_function_that_only_chooses_is_written_out_without_what_was_not_chosen():
    (tree,) = ast.parse(CHOOSES).body
    given = {"fast": ast.Constant(True), "kind": ast.parse("Kind.QUICK", mode="eval").body}
    assert written_out(tree, given, "y") == ["with using([Kind.QUICK]):", "    y = double(x, fast=True)"]
    given["kind"] = ast.parse("Kind.SLOW", mode="eval").body
    assert written_out(tree, given, "y")[0] == "x = x.clone()"


def test_what_is_made_of_other_inputs_is_no_input_that_a_reader_has_to_find() -> None:
    call = snippet("rmsnorm-linear", "triton-folded", "rmsnorm-linear")
    assert call is not None
    assert call.inputs == ("x", "norm_weight", "weight")
    plain = snippet("rmsnorm-linear", "torch-eager", "rmsnorm-linear")
    assert plain is not None
    assert "fold_norm_weight" not in plain.code, "the two calls take it and do not use it"


def test_only_what_is_made_of_inputs_and_of_functions_that_can_be_imported_is_shown() -> None:
    folds = OPERATORS["rmsnorm-linear"]
    sizes = replace(folds, inputs=gpu_ceilings.scaled_matmul_inputs)
    assert list(made_before(folds, ["x", "norm_weight", "weight", "folded"])) == ["folded"]
    assert made_before(folds, ["x", "weight"]) == {}, "nobody knows which is which"
    assert made_before(sizes, ["a", "b", "scale_a", "scale_b"]) == {}, "made of sizes and of a device"


@pytest.mark.parametrize(
    "body", ["if x:\n        return x\n    return -x", "for _ in x:\n        return x", "print(x)"]
)
def test_what_returns_in_its_midst_or_nothing_is_not_written_out(body):
    (tree,) = ast.parse(f"def f(x):\n    {body}").body
    assert written_out(tree, {}, "y") == []
