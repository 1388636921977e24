"""What the sizes of a shape are is said beside it, and is what the inputs are made of."""

import os
from dataclasses import replace

import pytest
import torch

from lab.definition.catalogue import load_experiments
from lab.definition.experiment import Case
from lab.website.pages import labels
from lab.website.pages.call_inputs import comment, inputs_of
from lab.website.pages.labels import axes, axes_of

CASES = {case.operator.name: case for experiment in load_experiments() for case in experiment.cases}
SIZES = {
    "rows": 16, "columns": 256, "M": 16, "N": 256, "F": 384, "K": 128, "batch": 2, "heads": 6, "q heads": 8,
    "kv heads": 4, "tokens": 32, "cached tokens": 48, "queries": 24, "keys": 48, "head dim": 64,
    "elements": 512, "steps": 3,
}  # fmt: skip
ROWS = ("rows", "columns")
# The sizes of the first inputs by the names of axes, by how the names of operators end or begin.
FIRST = {
    "rows×columns": [ROWS],
    "elements×steps": [("elements",)],
    "M×N×K": [("M", "K")],
    "M×F×K": [("M", "K")],
    "batch×heads×tokens×head dim": [("batch", "heads", "tokens", "head dim")],
    "batch×q heads×kv heads×tokens×head dim": [
        ("batch", "q heads", "tokens", "head dim"), ("batch", "kv heads", "tokens", "head dim"),
    ],
    "batch×q heads×kv heads×queries×keys×head dim": [
        ("batch", "q heads", "queries", "head dim"), ("batch", "kv heads", "keys", "head dim"),
    ],
    "batch×q heads×kv heads×cached tokens×head dim": [("batch", "q heads", "head dim")],
}  # fmt: skip
SECOND = {
    **dict.fromkeys(("matmul", "matmul-tf32", "gemm", "gemm-default", "gemm-elsewhere"), ("K", "N")),
    **dict.fromkeys(("fp8-gemm-row", "fp8-gemm-tensor", "fp8-gemm-block", "fp8-linear-row"), ("N", "K")),
    "decode-attention": ("batch", "kv heads", "cached tokens", "head dim"),
    **dict.fromkeys(("rmsnorm", "cpu-rmsnorm", "layernorm", "cpu-layernorm", "rmsnorm-fp8"), ("columns",)),
    **dict.fromkeys(("swiglu", "geglu-tanh", "add-rmsnorm", "add"), ROWS),
}


@pytest.mark.parametrize("op", CASES)
def test_every_operator_of_the_lab_says_what_each_size_of_its_shapes_is(op: str) -> None:
    assert len(axes(op).split("×")) == len(CASES[op].shape)


def made_at(op: str, sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    case = CASES[op]
    made = case.operator.inputs(sizes, getattr(torch, case.dtype), "cpu", 0)
    return [tuple(each.shape) for each in made if isinstance(each, torch.Tensor)]


@pytest.mark.parametrize("op", [op for op in CASES if not op.startswith("qwen-") and op != "stream"])
def test_the_axes_are_those_of_the_inputs(op: str) -> None:
    made = made_at(op, tuple(SIZES[name] for name in axes(op).split("×")))
    wanted = [("batch", "tokens")] if op == "rmsnorm-rope" else FIRST[axes(op)]
    shapes = [tuple(SIZES[name] for name in names) for names in wanted]
    assert [shape[: len(names)] for shape, names in zip(made, shapes, strict=False)] == shapes
    if op in SECOND:
        assert made[1] == tuple(SIZES[name] for name in SECOND[op])


def test_a_row_of_heads_is_as_long_as_all_of_them() -> None:
    made, *_ = made_at("rmsnorm-rope", (2, 32, 6, 64))
    assert axes("rmsnorm-rope") == "batch×tokens×heads×head dim"
    assert made == (2, 32, 6 * 64)


def test_a_weight_of_a_gated_unit_and_of_a_joined_norm_has_k_columns() -> None:
    assert made_at("gated-mlp", (16, 384, 128))[1] == (2 * 384, 128)
    assert made_at("rmsnorm-linear", (16, 256, 128))[1:3] == [(128,), (256, 128)]


def test_a_whole_model_is_given_its_sequences_and_its_context() -> None:
    assert made_at("qwen-prefill", (1, 64))[0][:2] == (1, 64)
    embeddings, context = CASES["qwen-decode"].operator.inputs((3, 40), torch.float32, "cpu", 0)
    assert (embeddings.shape[:2], context) == ((3, 1), 40)


def test_where_most_operators_of_an_experiment_have_the_same_axes_the_others_are_named() -> None:
    assert axes_of(["gemm", "gemm-default"]) == "M×N×K"
    told = axes_of(["rope-qk", "qk-norm-rope", "rope"])
    assert told == "batch×q heads×kv heads×tokens×head dim; RoPE: batch×heads×tokens×head dim"
    assert axes_of(["rope", "somebody-elses"]) == "batch×heads×tokens×head dim"
    assert axes_of(["somebody-elses"]) == ""


def test_a_call_is_preceded_by_the_sizes_of_what_it_is_given() -> None:
    (gate,) = (each for each in CASES_OF["matmul-tiling"] if each.shape == (2048, 18_944, 3584))
    at = "matmul-tiling", gate.name, "gemm", "2048×18944×3584"
    assert comment(*at, ["a", "b"]) == "# a: (2048, 3584), b: (3584, 18944), strides (1, 3584)"
    assert comment(*at, ["b"]) == "# b: (3584, 18944), strides (1, 3584)"
    assert comment(*at, ["a", "bias"]) == "# M×N×K: 2048×18944×3584"
    assert comment("somebody", "s-2x2", "s", "2×2", ["x"]) == ""


CASES_OF = {experiment.name: experiment.cases for experiment in load_experiments()}


@pytest.mark.parametrize("op", ["rmsnorm", "fp8-gemm-block", "decode-attention-paged", "rope-qk"])
def test_sizes_found_without_data_are_those_of_real_inputs(op: str) -> None:
    case = CASES[op]
    sizes = tuple(SIZES[name] for name in axes(op).split("×"))
    told = inputs_of(Case(operator=case.operator, shape=sizes, dtype=case.dtype))
    assert [text.partition(")")[0] + ")" for text in told.values()] == [str(shape) for shape in made_at(op, sizes)]


def test_inputs_that_cannot_be_made_without_data_are_not_told() -> None:
    def needs_data(*arguments: object) -> tuple[object, ...]:
        return (torch.ones(2).tolist(),)

    case = CASES["gemm"]
    assert inputs_of(replace(case, operator=replace(case.operator, inputs=needs_data))) == {}
    assert inputs_of(CASES["qwen-norm"]) == {}


def test_a_call_is_told_alike_with_and_without_an_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET")
    assert list(inputs_of(CASES["rmsnorm-linear"])) == ["x", "norm_weight", "weight", "folded"]
    assert "TRITON_INTERPRET" not in os.environ


def test_of_a_project_that_names_no_axes_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "AXES", {})
    assert axes("gemm") == axes_of(["gemm"]) == ""
    assert comment("somebody", "gemm-2x2x2", "gemm", "2×2×2", []) == ""
