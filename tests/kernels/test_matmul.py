import itertools
import json
import re
from collections.abc import Callable

import pytest
import torch
from accuracy import DTYPES
from compiled import printed
from products import assert_product, sharing_launches
from torch import Tensor

from lab.kernels import gemm
from lab.kernels.activations import ACTIVATIONS
from lab.kernels.gemm import gemm_configuration
from lab.kernels.gemm_rule import HOPPER_TILES, Tile, gemm_rule
from lab.kernels.matmul import matmul, matmul_choices, matmul_inputs, matmul_reference, matmul_traffic
from lab.kernels.multicast import CLUSTER

# The interpreter computes with numpy, which tells of infinities.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")

SHAPES = [(1, 1, 1), (5, 3, 2), (16, 40, 1100), (17, 33, 65), (37, 70, 93), (130, 260, 64), (64, 1, 129)]


def check(a: Tensor, b: Tensor, bias: Tensor | None = None, activation: str = "none", **how: object) -> None:
    y = matmul(a, b, bias, activation, **how)
    assert_product(y, matmul_reference(a, b, bias, activation), a.shape[-1] ** 0.5, a.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_agrees_with_float64(shape: tuple[int, int, int], dtype: torch.dtype, device: str) -> None:
    check(*matmul_inputs(shape, dtype, device, seed=1))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("splits", [1, 3])
def test_bias_and_activation_come_after_the_sum(activation: str, splits: int, device: str) -> None:
    a, b = matmul_inputs((37, 70, 93), torch.float16, device, seed=2)
    bias = torch.randn(70, dtype=torch.float16, device=device)
    configuration = gemm_configuration(32, 32, 32, stages=2, splits=splits)
    check(a, b, bias, activation, configuration=configuration)
    check(a, b, None, activation, configuration=configuration)


def layouts(matrix: Tensor) -> list[Tensor]:
    """The same numbers: rows adjacent, columns adjacent, part of a wider one, every second of a larger one."""
    rows, columns = matrix.shape
    wide = torch.zeros(rows, columns + 7, dtype=matrix.dtype, device=matrix.device)
    sparse = torch.zeros(2 * rows, 3 * columns, dtype=matrix.dtype, device=matrix.device)
    views = [matrix.contiguous(), matrix.t().contiguous().t(), wide[:, 3:-4], sparse[::2, ::3]]
    for view in views[2:]:
        view.copy_(matrix)
    return views


def test_any_strides_will_do(device: str) -> None:
    a, b = matmul_inputs((20, 33, 47), torch.float16, device, seed=3)
    expected = matmul(a, b)
    for left, right in itertools.product(layouts(a), layouts(b)):
        assert torch.equal(matmul(left, right), expected)


def test_an_operand_may_be_expanded(device: str) -> None:
    a, b = matmul_inputs((1, 20, 30), torch.float16, device, seed=4)
    check(a.expand(6, 30), b)
    check(a, b[:, :1].expand(30, 9))


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4)], ids=str)
def test_leading_dimensions_are_rows(shape: tuple[int, ...], device: str) -> None:
    _, b = matmul_inputs((1, 33, 40), torch.float16, device, seed=5)
    a = torch.randn(*shape, 40, dtype=torch.float16, device=device)
    check(a, b)
    check(a.transpose(0, 1), b)


@pytest.mark.parametrize("splits", [1, 2, 5, 100])
def test_the_sum_may_be_split_as_often_as_asked(splits: int, device: str) -> None:
    a, b = matmul_inputs((9, 20, 333), torch.float16, device, seed=6)
    check(a, b, configuration=gemm_configuration(16, 16, 32, stages=2, splits=splits))


def test_the_order_of_tiles_does_not_matter(device: str) -> None:
    a, b = matmul_inputs((150, 100, 40), torch.float16, device, seed=7)
    ones = [matmul(a, b, configuration=gemm_configuration(32, 32, 32, stages=2, group=group)) for group in (1, 2, 8)]
    assert torch.equal(ones[0], ones[1])
    assert torch.equal(ones[0], ones[2])


@pytest.mark.parametrize("shape", [(0, 4, 5), (4, 0, 5)], ids=str)
def test_no_rows_or_columns_give_an_empty_result(shape: tuple[int, int, int], device: str) -> None:
    assert matmul(*matmul_inputs(shape, torch.float16, device, seed=8)).shape == shape[:2]


def test_a_sum_of_nothing_is_the_activation_of_the_bias(device: str) -> None:
    a, b = matmul_inputs((4, 6, 0), torch.float16, device, seed=9)
    bias = torch.arange(6, dtype=torch.float16, device=device) - 3
    assert matmul(a, b).eq(0).all()
    assert torch.equal(matmul(a, b, bias, "relu"), bias.relu().expand(4, 6))


def test_nan_and_infinity_stay_in_their_rows(device: str) -> None:
    a, b = matmul_inputs((37, 40, 50), torch.float16, device, seed=10)
    clean = matmul(a, b)
    a[3, 7], a[5, 1] = float("nan"), float("inf")
    y = matmul(a, b)
    assert y[3].isnan().all()
    assert not y[5].isfinite().any()
    others = [row for row in range(37) if row not in (3, 5)]
    assert torch.equal(y[others], clean[others])


def test_the_inputs_stay_as_they_were_and_the_bits_are_the_same_again(device: str) -> None:
    a, b = matmul_inputs((20, 30, 300), torch.bfloat16, device, seed=11)
    before = a.clone(), b.clone()
    configuration = gemm_configuration(16, 16, 32, stages=2, splits=4)
    assert torch.equal(matmul(a, b, configuration=configuration), matmul(a, b, configuration=configuration))
    assert torch.equal(a, before[0])
    assert torch.equal(b, before[1])


def test_every_choice_agrees(device: str) -> None:
    shape = (130, 140, 300)
    a, b = matmul_inputs(shape, torch.float16, device, seed=12)
    choices = list(matmul_choices(shape, 2))
    assert len(choices) == len(set(choices))
    for chosen in choices:
        check(a, b, configuration=chosen)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a, b: matmul(a[0], b), ValueError, "a has shape (8,); accepted is (..., M, K), two dimensions or more"),
        (lambda a, b: matmul(a, b[:7]), ValueError, "b has shape (7, 5); accepted is (8, N), for the K of a"),
        (lambda a, b: matmul(a, b.float()), ValueError, "b has dtype torch.float32; accepted is that of a"),
        (lambda a, b: matmul(a.int(), b), TypeError, "a has dtype torch.int32; accepted are torch.float16"),
        (
            lambda a, b: matmul(a, b, b[0, :3].contiguous()),
            ValueError,
            "bias has shape (3,); accepted is (5,), the N of b",
        ),
        (lambda a, b: matmul(a, b, b.new_zeros(10)[::2]), ValueError, "bias has stride 2; accepted is 1 (contiguous)"),
        (
            lambda a, b: matmul(a, b, activation="gelu"),
            ValueError,
            "activation is 'gelu'; accepted are ['none', 'relu'",
        ),
        (lambda a, b: matmul(a, [1]), TypeError, "b is a list; accepted is a torch.Tensor"),
    ],
    ids=["vector", "K", "dtype", "integers", "bias", "strided bias", "activation", "list"],
)
def test_what_it_cannot_take_is_named(
    call: Callable[[Tensor, Tensor], Tensor], error: type[Exception], message: str, device: str
) -> None:
    a, b = matmul_inputs((4, 5, 8), torch.float16, device, seed=13)
    with pytest.raises(error, match=f"^{re.escape(f'matmul: {message}')}"):
        call(a, b)


def test_a_gradient_that_would_be_lost_is_refused(device: str) -> None:
    a, b = matmul_inputs((4, 5, 8), torch.float16, device, seed=14)
    with pytest.raises(NotImplementedError, match="matmul: b requires grad, and this kernel has no backward"):
        matmul(a, b.requires_grad_())


def test_the_least_traffic_is_each_matrix_once() -> None:
    traffic = matmul_traffic((2048, 18_944, 3584), itemsize=2)
    assert (traffic.read_bytes, traffic.written_bytes) == (150_470_656, 77_594_624)
    assert traffic.flops == 2 * 2048 * 18_944 * 3584


LARGE = [(1000, 1000, 1000), (520, 776, 328), (601, 763, 517), (4096, 512, 4096), (200, 264, 8200), (129, 8, 64)]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_on_a_gpu_it_agrees_with_float64_as_the_rule_launches_it(
    shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    check(*matmul_inputs(shape, dtype, "cuda", seed=15))


@pytest.mark.gpu
@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize("tile", HOPPER_TILES, ids=str)
@pytest.mark.parametrize("N", [776, 777])  # rows of y that TMA writes, and that it cannot
@pytest.mark.parametrize("splits", [1, 3])
def test_on_a_gpu_every_tile_agrees_at_any_layout(tile: Tile, N: int, splits: int) -> None:
    a, b = matmul_inputs((520, N, 1096), torch.bfloat16, "cuda", seed=16)
    bias = torch.randn(N, dtype=torch.bfloat16, device="cuda")
    rows, columns, more, turns = tile
    stages, _ = HOPPER_TILES[tile]
    chosen = gemm_configuration(rows, columns, 64, stages=stages, hopper=True, splits=splits, more_n=more, turns=turns)
    for left, right in itertools.product(layouts(a), layouts(b)):
        check(left, right, bias, "silu", configuration=chosen)


@pytest.mark.gpu
@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize("tile", HOPPER_TILES, ids=str)
@pytest.mark.parametrize("N", [776, 777])
def test_on_a_gpu_every_tile_agrees_in_tensor_float_32(tile: Tile, N: int) -> None:
    a, b = matmul_inputs((520, N, 1096), torch.float32, "cuda", seed=20)
    rows, columns, more, turns = tile
    stages, _ = HOPPER_TILES[tile]
    chosen = gemm_configuration(rows, columns, 32, stages=stages, hopper=True, more_n=more, turns=turns)
    for left, right in itertools.product(layouts(a), layouts(b)):
        check(left, right, configuration=chosen)


@pytest.mark.gpu
@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize("tile", HOPPER_TILES, ids=str)
@pytest.mark.parametrize(
    ("N", "dtype", "splits"),
    [(776, torch.bfloat16, 1), (777, torch.bfloat16, 1), (776, torch.bfloat16, 3), (776, torch.float32, 1)],
    ids=str,
)
def test_on_a_gpu_programs_that_share_tiles_compute_the_same_bits(
    tile: Tile, N: int, dtype: torch.dtype, splits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of 1096 elements begin between lines; 520 are an odd number of tiles of every height."""
    a, b = matmul_inputs((520, N, 1096), dtype, "cuda", seed=21)
    made = sharing_launches(monkeypatch)
    rows, columns, more, turns = tile
    stages, _ = HOPPER_TILES[tile]
    alone, sharing = (
        gemm_configuration(
            rows,
            columns,
            128 // a.itemsize,
            stages=stages,
            hopper=True,
            splits=splits,
            more_n=more,
            cluster=cluster,
            turns=turns,
        )
        for cluster in (1, CLUSTER)
    )
    expected = matmul(a, b, configuration=alone)
    check(a, b, configuration=sharing)
    for _ in range(20):
        assert torch.equal(matmul(a, b, configuration=sharing), expected)
    if dtype == torch.bfloat16:
        across = a.t().contiguous().t()
        assert torch.equal(matmul(across, b, configuration=sharing), matmul(across, b, configuration=alone))
    assert len(made) == 1 + (dtype == torch.bfloat16)


@pytest.mark.gpu
def test_on_a_gpu_a_graph_computes_on_new_data() -> None:
    a, b = matmul_inputs((512, 512, 512), torch.bfloat16, "cuda", seed=17)
    matmul(a, b)  # compiles, which a capture may not
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = matmul(a, b)
    a.copy_(matmul_inputs((512, 512, 512), torch.bfloat16, "cuda", seed=18)[0])
    graph.replay()
    assert_product(y, matmul_reference(a, b), 512**0.5, torch.bfloat16)


@pytest.mark.gpu
def test_on_a_gpu_more_than_two_to_the_31_elements_are_addressed_right() -> None:
    a = torch.zeros(2**16 + 128, 2**15 + 64, dtype=torch.bfloat16, device="cuda")
    _, b = matmul_inputs((1, 128, a.shape[1]), torch.bfloat16, "cuda", seed=19)
    a[-3:].normal_()
    assert_product(matmul(a, b)[-3:].clone(), matmul_reference(a[-3:], b), a.shape[1] ** 0.5, torch.bfloat16)


def test_rows_that_are_copied_to_lines_have_the_tiles_of_aligned_ones() -> None:
    assert gemm_rule((4097, 4095, 4093), 2) == gemm_rule((4097, 4095, 4096), 2)


@pytest.mark.parametrize(
    ("shape", "by_pointers"),
    [((512, 512, 512), True), ((512, 512, 2048), True), ((640, 512, 256), True), ((640, 512, 2048), False)],
)
def test_small_products_are_loaded_by_pointers_and_not_split(shape: tuple[int, ...], by_pointers: bool) -> None:
    rule = gemm_rule(shape, 2)
    assert rule in list(matmul_choices(shape, 2))
    assert bool(rule["HOPPER"]) is not by_pointers
    if by_pointers:
        assert rule["SPLITS"] == 1


SPILLED = """
import json, re, subprocess, sys
import triton
from triton.compiler import ASTSource
from lab.kernels.gemm import _gemm_kernel as kernel
from lab.kernels.gemm_rule import pointer_rule

FLAGS = ("PAIRED", "BIAS", "ROW_SCALE", "COLUMN_SCALE", "PRECISE", "WHOLE_K")
for shape, itemsize in json.load(sys.stdin):
    chosen = pointer_rule(tuple(shape), itemsize)
    tile = {name: value for name, value in chosen.constants if name != "HOPPER"}
    fixed = dict.fromkeys(FLAGS, False) | {"ACTIVATION": None, "COLUMNS_PER_SCALE": 0, "a_k": 1, "b_k": 1} | tile
    factors = {1: "*fp8e4nv", 2: "*bf16"}[itemsize]
    pointers = {name: factors for name in kernel.arg_names if name.endswith("_ptr")}
    pointers |= dict.fromkeys(("y_ptr", "row_scale_ptr", "column_scale_ptr"), "*fp32")
    signature = {name: "constexpr" if name in fixed else pointers.get(name, "i32") for name in kernel.arg_names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(kernel.arg_names) if name in pointers}
    options = {"num_warps": chosen.num_warps, "num_stages": chosen.num_stages}
    made = triton.compile(ASTSource(kernel, signature, fixed, aligned), target=HOPPER, options=options)
    ptxas = [triton.knobs.nvidia.ptxas.path, "-v", "--gpu-name=sm_90a", "-o", "/dev/null", "/dev/stdin"]
    said = subprocess.run(ptxas, input=made.asm["ptx"], text=True, capture_output=True, check=True).stderr
    print(json.dumps([shape, itemsize, int(re.search(r"(\\d+) bytes spill stores", said)[1])]))
"""


def test_tiles_of_unaligned_rows_fit_into_registers() -> None:
    """They did not: 2 × 5003 × 4097 took 35 times as long as cuBLAS."""
    asked = [([2, 5003, 4097], 2), ([24, 5003, 4097], 2), ([64, 5003, 4097], 2), ([2, 5003, 4097], 1)]
    answers = [json.loads(line) for line in printed(SPILLED, asked).splitlines()]
    assert answers == [[*question, 0] for question in asked]


@pytest.mark.parametrize(("K", "splits", "precise"), [(16_384, 1, False), (16_400, 1, True), (32_784, 4, False)])
def test_long_sums_of_the_matrix_unit_are_added_up_in_float32(
    K: int, splits: int, precise: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []

    def launch(*arguments: object, **options: object) -> Callable[..., None]:
        made.extend([bool(options["PRECISE"])] if "PRECISE" in options else [])
        return lambda *_: None

    monkeypatch.setattr(gemm, "Launch", launch)
    a, b = matmul_inputs((4, 8, K), torch.bfloat16, "cpu", 1)
    gemm.gemm_launch(gemm.Product(a, b, a.dtype), gemm_configuration(16, 16, 128, stages=3, splits=splits))
    assert made == [precise]
