"""Products of few rows on a GPU: against float64, with K split, weights read ahead, and tiles that overlap."""

from collections.abc import Callable

import pytest
import torch
from products import assert_normed_product, assert_product
from torch import Tensor

from lab.kernels.few_rows import joined_linear, normed_gated_mlp
from lab.kernels.gemm import Product, gemm_configuration, shares
from lab.kernels.gemm_hopper_launch import copies_take, hopper_takes
from lab.kernels.gemm_rule import FEW_ROWS, HOPPER_TILES, LEAST_DEPTH, Tile, settle_product
from lab.kernels.launch import Configuration
from lab.kernels.matmul import MATMUL_TUNING, matmul, matmul_inputs, matmul_reference
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.rmsnorm_linear import (
    RMSNORM_LINEAR_TUNING,
    fold_norm_weight,
    rmsnorm_linear,
    rmsnorm_linear_inputs,
    rmsnorm_linear_reference,
)

pytestmark = pytest.mark.gpu

BF16, FP16 = torch.bfloat16, torch.float16
K_ADJACENT, N_ADJACENT = "k adjacent", "n adjacent"  # in b; the first is the weight of a linear layer
OTHER = -(2.0**100)  # what memory holds that no product may write, exactly a bfloat16


def factors(shape: tuple[int, int, int], dtype: torch.dtype, layout: str, seed: int) -> tuple[Tensor, Tensor]:
    a, b = matmul_inputs(shape, dtype, "cuda", seed)
    return a, b if layout == K_ADJACENT else b.contiguous()


def numbers(*shape: int, seed: int, by: float = 1.0) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, dtype=BF16, device="cuda", generator=generator) * by


@pytest.mark.parametrize(
    ("shape", "dtype", "layout"),
    [
        ((5, 8200, 4096), BF16, K_ADJACENT),
        ((16, 3001, 1000), BF16, N_ADJACENT),
        ((17, 8200, 4096), BF16, K_ADJACENT),
        ((33, 2056, 1000), BF16, K_ADJACENT),
        ((33, 18_944, 4096), BF16, K_ADJACENT),
        ((63, 8200, 1000), BF16, K_ADJACENT),
        ((63, 3001, 1000), BF16, K_ADJACENT),  # rows of y that TMA cannot write
        ((63, 2056, 1000), BF16, N_ADJACENT),
        ((64, 18_944, 1000), FP16, N_ADJACENT),
        ((1, 301, 40_001), BF16, K_ADJACENT),  # not aligned, and too long to unroll
        ((2, 5003, 4097), BF16, K_ADJACENT),
        ((16, 300, 4097), FP16, K_ADJACENT),
        ((24, 1001, 20_001), BF16, K_ADJACENT),
        ((48, 3001, 1001), BF16, K_ADJACENT),
        ((300, 30, 1001), BF16, K_ADJACENT),
    ],
    ids=str,
)
def test_few_rows_agree_with_float64(shape: tuple[int, int, int], dtype: torch.dtype, layout: str) -> None:
    a, b = factors(shape, dtype, layout, seed=1)
    assert_product(matmul(a, b), matmul_reference(a, b), shape[2] ** 0.5, dtype)


@pytest.mark.parametrize(
    ("shape", "dtype", "layout"),
    [
        ((64, 2056, 4096), BF16, K_ADJACENT),
        ((17, 3001, 4096), BF16, K_ADJACENT),
        ((17, 3001, 4096), BF16, N_ADJACENT),  # rows of b that TMA cannot read: by pointers
        ((33, 2056, 4096), FP16, N_ADJACENT),
    ],
    ids=str,
)
def test_the_rule_splits_the_sum_and_the_parts_add_up(
    shape: tuple[int, int, int], dtype: torch.dtype, layout: str
) -> None:
    a, b = factors(shape, dtype, layout, seed=2)
    chosen = MATMUL_TUNING.choose(shape, a)
    assert shares(shape[2], chosen)[1] > 1
    assert chosen["HOPPER"]
    assert hopper_takes(Product(a, b, dtype)) == (shape[1] % 8 == 0 or layout == K_ADJACENT)
    y = matmul(a, b)
    assert_product(y, matmul_reference(a, b), shape[2] ** 0.5, dtype)
    for _ in range(5):
        assert torch.equal(matmul(a, b), y)


@pytest.mark.parametrize(
    ("shape", "hopper", "splits"),
    [
        ((33, 2056, 1000), True, 1),
        ((5, 18_944, 4096), True, 1),
        ((64, 2056, 4096), True, 4),
        ((17, 2056, 4096), False, 4),
    ],
    ids=str,
)
def test_norm_and_product_of_few_rows_agree_with_float64(
    shape: tuple[int, int, int], hopper: bool, splits: int
) -> None:
    x, norm_weight, weight = rmsnorm_linear_inputs(shape, BF16, "cuda", seed=3)
    chosen = RMSNORM_LINEAR_TUNING.choose(shape, x)
    assert bool(dict(chosen.constants).get("HOPPER")) == hopper
    assert shares(shape[2], chosen)[1] == splits
    truth = rmsnorm_linear_reference(x, norm_weight, weight)
    assert_normed_product(rmsnorm_linear(x, norm_weight, weight), truth, BF16)
    assert_normed_product(rmsnorm_linear(x, None, fold_norm_weight(norm_weight, weight)), truth, BF16)


Call = Callable[[Tensor, Tensor, Tensor, bool], Tensor]  # of x, the norm's weight, the layer's, whether it is constant
CONSTANT: dict[str, tuple[int, int, Call]] = {  # (rows, depth, call)
    "norm and product": (33, 1000, lambda x, g, w, c: rmsnorm_linear(x, g, w, constant_weight=c)),
    "factors and product": (33, 1000, lambda x, g, w, c: rmsnorm_linear(x, None, w, constant_weight=c)),
    "norm and split product": (64, 4096, lambda x, g, w, c: rmsnorm_linear(x, g, w, constant_weight=c)),
    "one row": (1, 1000, lambda x, g, w, c: rmsnorm_linear(x, g, w, constant_weight=c)),
    "joined, one row": (
        1, 1000, lambda x, g, w, c: joined_linear(x, (w[:1024], w[1024:]), norm_weight=g, constant_weights=c),
    ),
    "joined, five rows": (5, 1000, lambda x, g, w, c: joined_linear(x, (w,), norm_weight=g, constant_weights=c)),
    "gated, one row": (1, 1000, lambda x, g, w, c: normed_gated_mlp(x, g, w[:1024], w[1024:2048], constant_weights=c)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANT)
def test_a_constant_weight_gives_the_same_bits_right_after_the_kernel_that_writes_x(name: str) -> None:
    """In a graph, where a kernel begins before the one before it has finished, with another x for each call."""
    rows, depth, call = CONSTANT[name]
    norm_weight = 1 + numbers(depth, seed=4, by=0.1)
    weight = numbers(2056, depth, seed=5, by=depth**-0.5)
    before = numbers(depth, depth, seed=6, by=depth**-0.5)
    sources = [numbers(rows, depth, seed=seed) for seed in range(6)]

    def written(source: Tensor) -> Tensor:
        if rows == 1:  # by a kernel that lets the next begin before it has itself waited
            return rmsnorm_linear(source, norm_weight, before, constant_weight=True)
        return rmsnorm(source, norm_weight)

    def one_after_another() -> list[Tensor]:
        results = []
        for source in sources:
            x = written(source)
            torch.cuda.synchronize()
            results.append(call(x, norm_weight, weight, False))
            torch.cuda.synchronize()
        return results

    def together() -> list[Tensor]:
        return [call(written(source), norm_weight, weight, True) for source in sources]

    for alone, result in zip(one_after_another(), together(), strict=True):  # compiles, which a capture may not
        assert torch.equal(result, alone)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = together()
    for turn in range(1, 6):
        for seed, source in enumerate(sources):
            source.copy_(numbers(rows, depth, seed=100 * turn + seed))
        expected = one_after_another()
        assert not torch.equal(expected[0], expected[1])
        for result in results:
            result.fill_(float("nan"))
        graph.replay()
        for alone, result in zip(expected, results, strict=True):
            assert torch.equal(result, alone)


def tiled(tile: Tile) -> Configuration:
    """As the rule launches a tile: with 64 rows in steps twice as deep."""
    rows, columns, more, turns = tile
    stages, _ = HOPPER_TILES[tile]
    depth, stages = (128, stages // 2 + 1) if rows == FEW_ROWS else (64, stages)
    return gemm_configuration(rows, columns, depth, stages=stages, hopper=True, more_n=more, turns=turns)


@pytest.mark.parametrize(
    ("M", "N", "tile", "other"),
    [
        (33, 2056, Tile(64, 64), Tile(64, 256)),
        (33, 2056, Tile(64, 128, 16), Tile(64, 64)),
        (33, 3001, Tile(64, 128, 16), Tile(64, 64)),  # rows of y that TMA cannot write
        (33, 2056, Tile(64, 256), Tile(64, 64)),
        (33, 200, Tile(64, 128, 16), Tile(64, 256)),  # two tiles, of which one column in three is in both
        (33, 200, Tile(64, 256), Tile(64, 64)),  # one tile, wider than y
        (200, 2056, Tile(128, 128, 16), Tile(64, 64)),  # rows overlap too
        (200, 2056, Tile(128, 128, 64, turns=True), Tile(64, 64)),
    ],
    ids=str,
)
def test_overlapping_tiles_write_the_same_bits_each_time_and_nothing_beside_y(
    M: int, N: int, tile: Tile, other: Tile
) -> None:
    assert N % (tile.columns + tile.more_columns) or M % tile.rows
    a, b = matmul_inputs((M, N, 1000), BF16, "cuda", seed=7)
    product = Product(a, b, BF16)
    assert hopper_takes(product)
    multiply = settle_product(product, tiled(tile))
    memory = torch.empty((M + 16, N), dtype=BF16, device="cuda")
    y, beside = memory[8:-8], (memory[:8], memory[-8:])
    results = []
    for _ in range(20):
        memory.fill_(OTHER)
        multiply(a, b, None, y, None, None, None)
        assert all(bool((rest == OTHER).all()) for rest in beside)
        results.append(y.clone())
    assert all(torch.equal(result, results[0]) for result in results)
    assert_product(results[0], matmul_reference(a, b), 1000**0.5, BF16)
    assert_product(results[0], matmul(a, b, configuration=tiled(other)).double(), 1000**0.5, BF16)


@pytest.mark.parametrize(
    ("depth", "folded", "shifted"),
    [
        (1001, False, ""),  # rows begin between
        (1000, False, "weight"),  # starts between
        (1000, True, "x"),  # the copy is of x, and the weight is read ahead
    ],
)
def test_a_copy_that_aligns_is_read_after_it_is_written(depth: int, folded: bool, shifted: str) -> None:
    """Call after call in a graph, each with another weight in the same place, or with another x: a product that did not
    wait for the copy would read that of the call before, which lies in the same memory."""
    M, N = 512, 1024

    def place(rows: int, between: bool) -> Tensor:
        memory = torch.empty(rows * depth + between, dtype=BF16, device="cuda")
        return memory[int(between) :].view(rows, depth)

    x, weight = place(M, shifted == "x"), place(N, shifted == "weight")
    norm_weight = None if folded else 1 + numbers(depth, seed=8, by=0.1)
    scale = torch.ones(depth, dtype=BF16, device="cuda") if norm_weight is None else norm_weight
    assert min(M, N, depth) >= LEAST_DEPTH
    assert MATMUL_TUNING.choose((M, N, depth), x)["HOPPER"]
    assert not copies_take(x if shifted == "x" else weight)
    assert copies_take(weight) == (shifted == "x")
    xs = [numbers(M, depth, seed=10 + turn) for turn in range(4)]
    weights = [numbers(N, depth, seed=20 + turn, by=depth**-0.5) for turn in range(4)]

    def calls() -> list[Tensor]:
        results = []
        for number in range(4):
            torch.mul(xs[number], 1, out=x)  # by kernels: a copy might be none
            torch.mul(weights[0 if shifted == "x" else number], 1, out=weight)
            results.append(rmsnorm_linear(x, norm_weight, weight, constant_weight=True))
        return results

    def check(results: list[Tensor]) -> None:
        for number, result in enumerate(results):
            used = weights[0 if shifted == "x" else number]
            assert_normed_product(result, rmsnorm_linear_reference(xs[number], scale, used), BF16)

    check(calls())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = calls()
    first = [result.clone() for result in calls()]
    for _ in range(5):
        for result in results:
            result.fill_(float("nan"))
        graph.replay()
        assert all(torch.equal(result, one) for result, one in zip(results, first, strict=True))
