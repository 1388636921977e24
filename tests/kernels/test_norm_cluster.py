"""Norms of rows held by clusters of programs: against float64 on a GPU, and the code that they become for an H100."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
from accuracy import DTYPES, assert_near
from compiled import printed

from lab.kernels.add_rmsnorm import add_rmsnorm, add_rmsnorm_inputs, add_rmsnorm_reference, add_rmsnorm_rule
from lab.kernels.cluster import MOST_HELD, clusters, clusters_hold, has_clusters, is_cluster
from lab.kernels.layernorm import layernorm, layernorm_inputs, layernorm_reference, layernorm_rule
from lab.kernels.rmsnorm import rmsnorm, rmsnorm_inputs, rmsnorm_reference, rmsnorm_rule

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
NORMS: dict[str, tuple[Any, Any, Any]] = {
    "rmsnorm": (rmsnorm, rmsnorm_inputs, rmsnorm_reference),
    "add_rmsnorm": (add_rmsnorm, add_rmsnorm_inputs, add_rmsnorm_reference),
    "layernorm": (layernorm, layernorm_inputs, layernorm_reference),
}
RULES = (rmsnorm_rule, add_rmsnorm_rule, layernorm_rule)
HELD = [
    (ctas, warps, columns)
    for ctas, warps in ((2, 4), (4, 4), (8, 8), (16, 4))
    for columns in (8, 4096, 16_392, 50_432, 262_208)
    if columns <= ctas * warps * 32 * MOST_HELD
]


def results(of: Any) -> tuple[torch.Tensor, ...]:
    return of if isinstance(of, tuple) else (of,)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("ctas", "warps", "columns"), HELD, ids=str)
@pytest.mark.parametrize("norm", NORMS)
def test_on_a_gpu_every_cluster_agrees_again_and_again(
    norm: str, ctas: int, warps: int, columns: int, dtype: torch.dtype
) -> None:
    call, inputs, reference = NORMS[norm]
    chosen = clusters(ctas, warps)
    assert has_clusters(torch.cuda.current_device())  # else the rule without them would be tested
    for seed in range(5):
        tensors = inputs((301, columns), dtype, "cuda", seed=seed)
        made = results(call(*tensors, configuration=chosen))
        for y, truth, again in zip(
            made, results(reference(*tensors)), results(call(*tensors, configuration=chosen)), strict=True
        ):
            assert_near(y, truth, tensors[0])
            assert torch.equal(y, again)


@pytest.mark.gpu
def test_on_a_gpu_a_layernorm_keeps_its_digits_if_the_mean_is_large_and_parts_of_a_row_differ() -> None:
    x, w, b = layernorm_inputs((5, 16_392), torch.float32, "cuda", seed=3)
    x[1] += 10_000.0
    x[2, :9000] -= 300.0
    x[3] = 7.0
    y = layernorm(x, w, b, configuration=clusters(4, 4))
    error = (y.double() - layernorm_reference(x, w, b)).abs().amax(1)
    assert error[0] < 1e-5
    assert error[1] < 1e-2  # a value of 10,000 has steps of 1e-3
    assert error[2] < 1e-4
    assert error[3] < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("norm", NORMS)
def test_on_a_gpu_rows_may_lie_anywhere_and_weights_may_be_of_float32(norm: str) -> None:
    call, inputs, reference = NORMS[norm]
    x, *others = inputs((9, 8200), torch.bfloat16, "cuda", seed=4)
    residual = others[:1] if norm == "add_rmsnorm" else []
    weights = [each.float() for each in others[len(residual) :]]
    for first, last, step, held in ((8, 8200, 1, True), (0, 8192, 2, True), (1, 8193, 1, False)):
        rows, columns = slice(0, 9, step), slice(first, last)
        view = x[rows, columns]
        assert clusters_hold(view) == held
        tensors = [view, *(each[rows, columns] for each in residual), *(each[columns] for each in weights)]
        for y, truth in zip(results(call(*tensors)), results(reference(*tensors)), strict=True):
            assert_near(y, truth, view)


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("rule", RULES)
def test_by_rule_clusters_hold_few_wide_rows(rule: Any, itemsize: int) -> None:
    for rows, row_bytes in ((1, 16_384), (32, 14_336), (8, 524_288)):
        columns = row_bytes // itemsize
        chosen = rule((rows, columns), itemsize)
        assert columns <= chosen["CTAS"] * chosen.num_warps * 32 * MOST_HELD
    for rows, columns in ((16, 2048), (64, 8192), (4096, 8192), (16, 8191), (1024, 131_071)):
        assert not is_cluster(rule((rows, columns), itemsize))


def test_by_rule_clusters_hold_more_rows_where_one_block_needs_32_warps_for_each() -> None:
    for rule in (rmsnorm_rule, add_rmsnorm_rule):
        for shape in ((1024, 65_536), (257, 32_768), (33, 131_072)):
            assert is_cluster(rule(shape, 2))
            assert not is_cluster(rule(shape, 4))
        assert not is_cluster(rule((256, 32_768), 2))
    assert is_cluster(layernorm_rule((1024, 18_432), 2))
    assert not is_cluster(layernorm_rule((1024, 65_536), 2))


# Compiles the launches of rows by rule, in a process of its own; prints the PTX of each.
FOR_AN_H100 = """
import importlib, json, sys
import torch
from triton.compiler import compile
from triton.experimental.gluon._runtime import GluonASTSource
from lab.kernels import norm_cluster

for place, (module, rows, columns, weights) in enumerate(json.load(sys.stdin)):
    x = torch.empty(rows, columns, dtype=torch.bfloat16)
    chosen = getattr(importlib.import_module(f"lab.kernels.{module}"), f"{module}_rule")((rows, columns), 2)
    others = [x] if module == "add_rmsnorm" else []
    launch = getattr(norm_cluster, f"{module}_cluster_launch")(x, *others, chosen)
    kernel = launch._kernel
    constants = launch._constants
    signature = {name: "fp32" if name == "eps" else "*bf16" for name in kernel.arg_names}
    signature |= {name: "*" + weights for name in ("w_ptr", "b_ptr") if name in kernel.arg_names}
    signature |= dict.fromkeys(constants, "constexpr")
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    pointers = [place for place, name in enumerate(kernel.arg_names) if name.endswith("_ptr")]
    source = GluonASTSource(kernel, signature, places, {(place,): [["tt.divisibility", 16]] for place in pointers})
    made = compile(source, target=HOPPER, options=launch._options)
    open(f"{place}.cubin", "wb").write(made.asm["cubin"])
    print(json.dumps(made.asm["ptx"]))
"""
# The first by eight thread blocks of 128 threads: 8 elements, one load of each tensor, a thread.
COMPILED = [
    ("rmsnorm", 16, 8192, "bf16"),
    ("add_rmsnorm", 16, 8192, "bf16"),
    ("layernorm", 16, 8192, "bf16"),
    ("rmsnorm", 1024, 131_072, "bf16"),
    ("layernorm", 1024, 32_768, "bf16"),
    ("rmsnorm", 1024, 131_072, "fp32"),
]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("clusters")
    return folder, [json.loads(line) for line in printed(FOR_AN_H100, COMPILED, folder=folder).splitlines()]


def test_for_an_h100_a_program_reads_and_writes_its_part_once(compiled: tuple[Path, list[str]]) -> None:
    for ptx, loads, stores in zip(compiled[1], (2, 3, 3, 16, 24, 24), (1, 2, 1, 8, 8, 8), strict=True):
        accesses = re.findall(r"(ld|st)\.global\S*\.v4\.b32", ptx)
        assert (accesses.count("ld"), accesses.count("st")) == (loads, stores)
        assert len(re.findall(r"[ls][dt]\.global", ptx)) == loads + stores
        steps = re.findall(r"barrier\.cluster\.\w+|st\.async|ld\.shared\.f32", ptx)
        assert steps[:3] == ["barrier.cluster.arrive", "barrier.cluster.wait", "st.async"]
        assert set(steps[3:]) == {"ld.shared.f32"}


@pytest.mark.skipif(not CUOBJDUMP.exists(), reason="this Triton comes without the tool that tells")
def test_for_an_h100_nothing_spills(compiled: tuple[Path, list[str]]) -> None:
    for place, asked in enumerate(COMPILED):
        command = [CUOBJDUMP, "--dump-resource-usage", compiled[0] / f"{place}.cubin"]
        listing = subprocess.run(command, text=True, capture_output=True, check=True).stdout
        assert int(listing.partition("STACK:")[2].split()[0]) == 0, asked
        assert int(listing.partition("REG:")[2].split()[0]) <= 96, asked  # with more, few blocks are at work
