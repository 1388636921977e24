"""What of the kernel for Hopper can be seen without one: how it compiles, and what it takes."""

import itertools
import json
from typing import Any

import pytest
import torch
from compiled import printed

from lab.kernels import gemm_hopper_launch, gemm_rule
from lab.kernels.activations import silu
from lab.kernels.gemm import Product, gemm_configuration
from lab.kernels.gemm_hopper_launch import (
    FEW_REGISTERS,
    MOST_REGISTERS,
    SHARED_BYTES,
    WGMMA_ROWS,
    between_lines,
    copies_take,
    hopper_gemm_launch,
    hopper_stages,
    hopper_takes,
    in_turn,
    more_columns,
)
from lab.kernels.gemm_rule import fp8_choices, gated_choices, gemm_choices, launchable

COMPILING = """
import json, re, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from lab.kernels import activations
from lab.kernels.gemm_hopper import _hopper_gemm_kernel as kernel
from lab.kernels.gemm_hopper_launch import FEW_REGISTERS
from lab.kernels.any_columns import FEWER_COLUMNS
from lab.kernels.changed_ptx import changing
from lab.kernels.multicast import SHARED_COPIES

TYPES = {"bf16": gl.bfloat16, "fp32": gl.float32, "fp8e4nv": gl.float8e4nv}

def descriptor(dtype, block):
    return f"tensordesc<{dtype}[{block[0]}, {block[1]}],{gl.NVMMASharedLayout.get_default_for(block, TYPES[dtype])!r}>"

for dtype, y_dtype, blocks, constants in json.load(sys.stdin):
    constants["ACTIVATION"] = getattr(activations, constants["ACTIVATION"] or "", None)
    pointers = {"bias_ptr": f"*{y_dtype}", "row_scale_ptr": "*fp32", "column_scale_ptr": "*fp32"}
    types = {n: descriptor(y_dtype if n[0] == "y" else dtype, block) for n, block in blocks.items()} | pointers
    if constants["DIRECT"]:
        types["y"] = types["y_more"] = f"*{y_dtype}"
    signature = {n: "constexpr" if n in constants else types.get(n, "i32") for n in kernel.arg_names}
    plain = [i for i, n in enumerate(kernel.arg_names) if n in pointers or signature[n] == "i32" and n != "splits"]
    source = GluonASTSource(kernel, signature, constants, {(i,): [["tt.divisibility", 16]] for i in plain})
    registers = {"maxnreg": FEW_REGISTERS[0]} if constants["REGISTERS"] == FEW_REGISTERS[1] else {}
    with changing(SHARED_COPIES, FEWER_COLUMNS):
        options = {"num_warps": 4, "launch_pdl": True} | registers
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    ptx = made.asm["ptx"]
    waits = re.findall(r"wgmma[.]wait_group[.]sync[.]aligned (\\\\d)", ptx)
    print(json.dumps({
        "shared": made.metadata.shared, "local": len(re.findall(r"[.]local", ptx)),
        "products": len(re.findall("wgmma[.]mma_async", ptx)), "waits": waits,
        "early": len(re.findall("griddepcontrol[.]wait", ptx)),
        "copies": len(re.findall("cp[.]async[.]bulk[.]tensor[^;]*mbarrier", ptx)),
        "shared_copies": len(re.findall("complete_tx::bytes[.]multicast::cluster", ptx)),
        "meetings": len(re.findall("barrier[.]cluster[.]wait", ptx)), "clusters": ".reqnctapercluster 2, 1, 1" in ptx,
        "arrivals_here": len(re.findall("mbarrier[.]arrive[.]shared::cta", ptx)),
        "arrivals_in_both": len(re.findall("mbarrier[.]arrive[.]shared::cluster", ptx)),
    }))
"""
PLAIN = {
    "A_ACROSS": False, "B_ACROSS": False, "PAIRED": False, "ACTIVATION": None, "BIAS": False, "ROW_SCALE": False,
    "COLUMN_SCALE": False, "PRECISE": False, "COLUMNS_PER_SCALE": 0, "DIRECT": False, "HALVED": False, "GROUP": 8,
    "MORE_N": 0, "B_AHEAD": False, "CLUSTER": 1, "TURNS": False, "REGISTERS": MOST_REGISTERS,
}  # fmt: skip


def asked(
    dtype: str, tile: tuple[int, int, int], stages: int, y_dtype: str = "bf16", **flags: Any
) -> tuple[str, str, dict[str, list[int]], dict[str, Any]]:
    constants = PLAIN | flags
    rows, columns, depth = tile
    half = constants["PAIRED"] or constants["HALVED"]
    across, whole = rows == WGMMA_ROWS and not constants["TURNS"], constants["TURNS"]
    y_rows, y_columns = rows if whole or across else rows // 2, columns // 2 if across else columns
    line = depth if constants["B_ACROSS"] else min(depth, 128 // {"bf16": 2, "fp32": 4, "fp8e4nv": 1}[dtype])
    b = [columns // (1 + constants["PAIRED"]) // constants["CLUSTER"], line]
    blocks = {
        "a": [depth, rows] if constants["A_ACROSS"] else [rows, depth],
        "b": b[::-1] if constants["B_ACROSS"] else b,
        "y": [y_rows, y_columns // 2 if half else y_columns],
    }
    if more := constants["MORE_N"]:
        piece = more & -more
        blocks["b_more"] = [depth, 64] if constants["B_ACROSS"] else [piece // constants["CLUSTER"], line]
        blocks["y_more"] = [y_rows, piece // 2 if across else piece]
    tiles = {"BLOCK_M": rows, "BLOCK_N": columns, "BLOCK_K": depth, "STAGES": stages}
    return dtype, y_dtype, blocks | {"b2": blocks["b"]}, constants | tiles


def compiled(questions: list[Any]) -> list[dict[str, Any]]:
    answers = [json.loads(line) for line in printed(COMPILING, questions).splitlines()]
    assert len(answers) == len(questions)
    return answers


def test_no_sum_leaves_the_registers_and_the_tiles_fit() -> None:
    wide, high, small = (128, 256, 64), (256, 128, 64), (128, 128, 64)
    questions = [
        asked("bf16", wide, 4, HALVED=True),
        asked("bf16", wide, 4, HALVED=True, A_ACROSS=True, B_ACROSS=True),
        asked("bf16", high, 4, HALVED=True, BIAS=True, ACTIVATION="gelu_erf"),
        asked("bf16", wide, 4, PAIRED=True, ACTIVATION="silu"),
        asked("bf16", wide, 4, HALVED=True, DIRECT=True, BIAS=True),
        asked("bf16", small, 4, "fp32"),
        asked("bf16", (64, 128, 64), 8, REGISTERS=FEW_REGISTERS[1], BIAS=True, ACTIVATION="gelu_erf"),
        asked("bf16", small, 4, MORE_N=64),
        asked("bf16", small, 5, MORE_N=32, B_ACROSS=True, BIAS=True, DIRECT=True),
        asked("bf16", (64, 128, 64), 5, MORE_N=64),
        asked("bf16", (64, 128, 128), 4, MORE_N=16, B_AHEAD=True, REGISTERS=FEW_REGISTERS[1]),
        asked("bf16", (64, 256, 64), 4, B_ACROSS=True),
        asked("bf16", wide, 3, CLUSTER=2, BIAS=True),
        asked("bf16", small, 4, CLUSTER=2, MORE_N=64, A_ACROSS=True),
        asked("bf16", small, 3, MORE_N=112, HALVED=True, BIAS=True, ACTIVATION="gelu_erf"),
        asked("bf16", small, 3, MORE_N=80, B_ACROSS=True, A_ACROSS=True, HALVED=True),
        asked("bf16", high, 3, CLUSTER=2, MORE_N=32, HALVED=True),
        asked("bf16", (64, 128, 64), 7, CLUSTER=2, MORE_N=16, DIRECT=True),
        asked("fp32", (128, 128, 32), 4, "fp32"),
        asked("fp8e4nv", (128, 256, 128), 4, HALVED=True, ROW_SCALE=True, COLUMN_SCALE=True),
        asked("fp8e4nv", (128, 128, 128), 5, ROW_SCALE=True, COLUMN_SCALE=True, PRECISE=True),
        asked("fp8e4nv", (128, 128, 128), 5, PRECISE=True, COLUMNS_PER_SCALE=128),
        asked("fp8e4nv", (128, 128, 128), 5, PRECISE=True, CLUSTER=2),
        asked("fp8e4nv", (128, 128, 128), 5, TURNS=True, ROW_SCALE=True, COLUMN_SCALE=True),
        asked("fp8e4nv", (128, 128, 128), 4, TURNS=True, MORE_N=64, HALVED=True, ROW_SCALE=True, COLUMN_SCALE=True),
        asked("bf16", (128, 64, 64), 6, TURNS=True, MORE_N=32, HALVED=True),
        asked("bf16", (128, 128, 64), 5, TURNS=True, BIAS=True, ACTIVATION="gelu_erf"),
        asked("bf16", (128, 128, 64), 4, TURNS=True, MORE_N=32, HALVED=True),
        asked("bf16", (128, 128, 64), 4, TURNS=True, MORE_N=64, HALVED=True, CLUSTER=2),
    ]  # fmt: skip
    for (*_, constants), each in zip(questions, compiled(questions), strict=True):
        assert each["local"] == 0
        assert each["shared"] <= SHARED_BYTES
        assert each["early"] == 4 - constants["B_AHEAD"]  # groups of warps that wait
        assert each["products"] >= 8  # of two groups of warps
        assert each["copies"] >= 2  # one for each operand, or for each row of 128 bytes of it
        shared = constants["CLUSTER"] == 2
        assert each["clusters"] == shared
        assert each["shared_copies"] == shared * (2 if constants["MORE_N"] else 1)
        assert each["meetings"] == 5 * shared  # of all warps: four groups, and those that only fill the last
        assert bool(each["arrivals_in_both"]) == shared
        assert not (shared and each["arrivals_here"])


def matrix(rows: int, columns: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(rows, columns, dtype=dtype)


def test_what_the_copy_engine_takes() -> None:
    wide = matrix(64, 80)
    assert copies_take(wide)
    assert copies_take(wide[:, :7])  # the rest of a row is not looked at
    assert copies_take(wide[:, 8:20])
    assert not copies_take(wide[:, 1:])  # starts between
    assert not copies_take(wide.t())  # rows are not adjacent
    assert not copies_take(matrix(64, 81))  # rows begin between
    assert copies_take(matrix(1, 81))  # there is no second one
    assert not copies_take(matrix(1, 80).expand(64, 80))  # the same row again


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_only_16_bit_operands_may_lie_across(dtype: torch.dtype) -> None:
    a, b = matrix(64, 128, dtype), matrix(256, 128, dtype)
    assert hopper_takes(Product(a, b.t(), dtype))
    across = hopper_takes(Product(a, matrix(128, 256, dtype), dtype))
    assert across == (dtype == torch.bfloat16)
    assert not hopper_takes(Product(a, matrix(128, 256, dtype), dtype, b2=matrix(128, 256, dtype)))
    assert not hopper_takes(Product(matrix(64, 81, dtype), matrix(256, 81, dtype).t(), dtype))


def test_both_weights_of_a_pair_must_be_aligned() -> None:
    a, gate = matrix(64, 128), matrix(256, 128)
    up = matrix(1, 256 * 128 + 1).flatten()[1:].view(256, 128)  # begins two bytes later
    assert hopper_takes(Product(a, gate.t(), a.dtype, b2=gate.t()))
    assert not hopper_takes(Product(a, gate.t(), a.dtype, b2=up.t()))


@pytest.mark.parametrize("shape", [(2048, 3584, 3584), (100, 3000, 20_000), (8192, 128, 512), (300, 300, 300)], ids=str)
@pytest.mark.parametrize("splits", [1, 2])
def test_every_choice_fits_into_shared_memory(shape: tuple[int, int, int], splits: int) -> None:
    choices = [(choice, 2) for choice in (*gemm_choices(shape, 2), *gated_choices(shape, 2))]
    choices += [(choice, 4) for choice in gemm_choices(shape, 4)]
    choices += [(choice, 1) for choice in (*fp8_choices(shape, 1, False, False), *fp8_choices(shape, 1, True, True))]
    for choice, itemsize in choices:
        if choice["HOPPER"]:
            y_itemsize = 4 if itemsize == 4 or splits > 1 else 2
            stages, halved = hopper_stages(choice, itemsize, y_itemsize, paired=False)
            more = more_columns(choice)
            y_bytes = (
                (1 + in_turn(choice)) * choice["BLOCK_M"] * (choice["BLOCK_N"] // (1 + halved) + more) * y_itemsize
            )
            tile_bytes = (choice["BLOCK_M"] + choice["BLOCK_N"] + more) * choice["BLOCK_K"] * itemsize
            assert stages * tile_bytes + y_bytes <= SHARED_BYTES
            assert 2 <= stages <= choice.num_stages


def test_what_does_not_fit_gets_fewer_stages() -> None:
    choice = gemm_configuration(256, 128, 64, stages=4, hopper=True)
    assert hopper_stages(choice, 2, 2, paired=False) == (4, True)
    assert hopper_stages(choice, 2, 4, paired=False) == (3, True)
    assert hopper_stages(gemm_configuration(128, 128, 64, stages=4, hopper=True), 2, 2, paired=False) == (4, False)


@pytest.mark.parametrize(("cluster", "depth"), [(4, 64), (2, 128)])
def test_a_cluster_that_the_kernel_cannot_have_is_refused(cluster: int, depth: int) -> None:
    chosen = gemm_configuration(128, 128, depth, stages=2, hopper=True, cluster=cluster)
    with pytest.raises(ValueError, match=f"CLUSTER is {cluster} and BLOCK_K {depth}; accepted is a CLUSTER of 1"):
        hopper_gemm_launch(Product(matrix(512, 1000), matrix(512, 1000).t(), torch.bfloat16), chosen)


@pytest.mark.parametrize("known", [True, False], ids=["Triton 3.6", "another Triton"])
@pytest.mark.parametrize(
    ("block_n", "more_n", "how"),
    [(128, 8, {}), (128, -16, {}), (64, 64, {}), (256, 64, {}), (128, 32, {"precise": True}), (128, 32, {"b2": True})],
    ids=str,
)
def test_columns_are_refused_where_the_kernel_cannot_take_them(
    block_n: int, more_n: int, how: dict[str, Any], known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a Triton with which another tile would be chosen: a mistake is not passed over."""
    monkeypatch.setattr(gemm_hopper_launch, "can_change", lambda device: known)
    monkeypatch.setattr(gemm_rule, "on_hopper", lambda device: True)
    a, b = matrix(256, 2048), matrix(640, 2048).t()
    product = Product(a, b, torch.bfloat16, **(how | ({"b2": b} if "b2" in how else {})))
    chosen = gemm_configuration(128, block_n, 64, stages=3, hopper=True, more_n=more_n)
    for launch in (hopper_gemm_launch, gemm_rule.settle_product):
        with pytest.raises(ValueError, match=f"MORE_N is {more_n} and BLOCK_N {block_n}; accepted is a MORE_N of 0"):
            launch(product, chosen)


@pytest.mark.parametrize(
    ("known", "across", "rows", "more"),
    [(True, False, 48, 16), (True, True, 48, 0), (True, True, 512, 16), (False, False, 48, 0), (False, False, 512, 0)],
)
def test_columns_are_a_power_of_two_where_the_kernel_cannot_be_changed(
    known: bool, across: bool, rows: int, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where two groups of warps would divide a line of adjacent columns unevenly. Another tile is chosen then."""
    monkeypatch.setattr(gemm_hopper_launch, "can_change", lambda device: known)
    b = matrix(2048, 640) if across else matrix(640, 2048).t()
    product = Product(matrix(rows, 2048), b, torch.bfloat16)
    chosen = gemm_configuration(64 if rows == 48 else 128, 128, 64, stages=3, hopper=True, more_n=16)
    found = launchable(product, chosen)
    assert more_columns(found) == more
    assert (found == chosen) == (more > 0)
    made: list[dict[str, Any]] = []
    for name in ("ChangedLaunch", "Launch"):
        monkeypatch.setattr(gemm_hopper_launch, name, lambda *arguments, **options: made.append(options))
    hopper_gemm_launch(product, found)
    assert ("changes" in made[0]) == (more > 0)
    if not more:
        where = "for a right operand with adjacent columns" if known else "on this GPU with Triton"
        with pytest.raises(ValueError, match=f"MORE_N is 16; accepted is 0 {where}"):
            hopper_gemm_launch(product, chosen)


def test_there_are_no_turns_where_y_is_written_from_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The assembler would wait for each product (its remark C7514)."""
    monkeypatch.setattr(gemm_hopper_launch, "can_change", lambda device: True)
    chosen = gemm_configuration(128, 128, 64, stages=4, hopper=True, more_n=64, turns=True)
    for N, turns in ((640, True), (641, False)):
        product = Product(matrix(256, 2048), matrix(N, 2048).t(), torch.bfloat16)
        assert in_turn(launchable(product, chosen)) == turns
    monkeypatch.setattr(gemm_hopper_launch, "can_change", lambda device: False)  # another tile is chosen
    for M, N in itertools.product((128, 520, 2048), (2049, 8193, 50_257)):
        product = Product(matrix(M, 512), matrix(N, 512).t(), torch.bfloat16)
        assert not in_turn(launchable(product, chosen))


def test_an_activation_of_a_large_tile_is_written_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the assembler keeps sums in memory, which takes its remarks to see: PTX does not show it."""
    monkeypatch.setattr(gemm_hopper_launch, "can_change", lambda device: True)
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(gemm_hopper_launch, "ChangedLaunch", lambda *arguments, **options: made.append(options))
    chosen = gemm_configuration(256, 128, 64, stages=3, hopper=True, more_n=16)
    for activation in (None, silu):
        product = Product(matrix(512, 2048), matrix(640, 2048).t(), torch.bfloat16, activation=activation)
        hopper_gemm_launch(product, chosen)
    assert [options["HALVED"] for options in made] == [False, True]


@pytest.mark.parametrize(("depth", "stages"), [(64, 1), (256, 3)])
def test_a_tile_of_which_a_single_stage_fits_is_refused(depth: int, stages: int) -> None:
    """The next step's products must begin before this step's tiles are free: they would wait for one another."""
    product = Product(matrix(256, 2048), matrix(640, 2048).t(), torch.bfloat16)
    with pytest.raises(ValueError, match=f"1 stages of a tile of 128 × 256 fit beside y, of the {stages} asked for"):
        hopper_gemm_launch(product, gemm_configuration(128, 256, depth, stages=stages, hopper=True))


@pytest.mark.parametrize("how", [{"precise": True}, {"precise": True, "columns_per_scale": 128}, {"b2": True}], ids=str)
def test_turns_are_refused_where_the_kernel_cannot_take_them(how: dict[str, Any]) -> None:
    wide = gemm_configuration(128, 128, 64, stages=3, hopper=True, turns=True)
    a, b = matrix(256, 2048), matrix(640, 2048).t()
    product = Product(a, b, torch.bfloat16, **(how | ({"b2": b} if "b2" in how else {})))
    with pytest.raises(ValueError, match="TURNS is 1; accepted is 0 for precise accumulation"):
        hopper_gemm_launch(product, wide)


def test_rows_between_lines_are_told_by_their_distance() -> None:
    assert between_lines(matrix(64, 1000))
    assert not between_lines(matrix(64, 1024))
    assert not between_lines(matrix(64, 1024)[:, :1000])


def test_a_weight_that_is_copied_first_is_not_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel just before the product writes the copy."""
    launched: list[Product] = []
    monkeypatch.setattr(gemm_rule, "on_hopper", lambda device: True)
    monkeypatch.setattr(gemm_rule, "hopper_gemm_launch", lambda product, chosen: launched.append(product))
    chosen = gemm_configuration(128, 128, 64, stages=4, hopper=True)
    for depth in (1001, 1024):
        product = Product(matrix(512, depth), matrix(1024, depth).t(), torch.bfloat16, b_ahead=True)
        gemm_rule.settle_product(product, chosen)
    copied, given = launched
    assert (copied.b_ahead, given.b_ahead) == (False, True)
