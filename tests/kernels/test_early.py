"""Kernels that begin before the one before them has finished wait for its results."""

import re
from pathlib import Path

import pytest
import torch
from compiled import printed

import lab.kernels
from lab.kernels.add_rmsnorm import _prepare as prepare_add_rmsnorm
from lab.kernels.add_rmsnorm import add_rmsnorm
from lab.kernels.early import NEXT_BEGINS_AT_END, NEXT_BEGINS_EARLY
from lab.kernels.few_rows import joined_linear
from lab.kernels.glu import swiglu
from lab.kernels.launch import Configuration, multiprocessors, starts_early
from lab.kernels.matmul import matmul
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.rmsnorm_linear import rmsnorm_linear
from lab.kernels.softmax import softmax

FOLDER = Path(lab.kernels.__path__[0])
KERNELS = re.compile(r"@(?:triton|gluon)\.jit.*\ndef (_\w+_kernel)\((?:.|\n)*?(?=\n\n\n|\n\Z)")
# These read first what no kernel that may still run has written; the tests of their code below say in which order.
AHEAD = {
    "gemv._gemv_kernel", "few_rows._one_row_kernel", "rmsnorm_linear._join_kernel",
    "softmax_split._softmax_join_kernel",
}  # fmt: skip
BY_WARPS = {"gemm_hopper._hopper_gemm_kernel", "flash_attention_hopper._flash_attention_hopper_kernel"}
NEVER_EARLY = {
    "chain._chain_kernel", "reduction._reduction_kernel", "row_sum._row_sum_kernel", "stream._stream_kernel",
}  # fmt: skip

FOR_AN_H100 = """
import lab.kernels.copy, lab.kernels.few_rows, lab.kernels.gemv, lab.kernels.rmsnorm_linear
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

kernel = getattr(lab.kernels.{module}, "{kernel}")
constants = dict({constants})
types = {{name: "fp32" if name == "eps" else "i32" for name in kernel.arg_names}}
types |= {{name: "*bf16" for name in kernel.arg_names if name.endswith("_ptr")}} | dict({types})
places = {{(kernel.arg_names.index(name),): value for name, value in constants.items()}}
known = {{*constants, "eps", "M"}}
aligned = {{(n,): [["tt.divisibility", 16]] for n, name in enumerate(kernel.arg_names) if name not in known}}
source = ASTSource(kernel, types | dict.fromkeys(constants, "constexpr"), places, aligned)
made = compile(source, target=GPUTarget("cuda", 90, 32), options={{"num_warps": 4, "launch_pdl": True}})
print(made.asm["ptx"])
"""
ONE_LAYER = "SECOND=0, THIRD=0, BIASED0=True, BIASED1=False, BIASED2=False, NORM=True, RESIDUAL=True"
BEGUN, WAITED = "griddepcontrol.launch_dependents", "griddepcontrol.wait"


def steps(tmp_path: Path, module: str, kernel: str, constants: str, types: str = "") -> list[str]:
    """The reads and writes of a kernel in the order of its code, and where it waits: a weight is read to be evicted."""
    ptx = printed(FOR_AN_H100.format(module=module, kernel=kernel, constants=constants, types=types), cache=tmp_path)
    told = re.findall(r"griddepcontrol\.\w+|(?:ld|st)\.global\S*|cp\.async\.c[ag]\S*", ptx)
    return ["weight" if "evict_first" in each else each for each in told]


@pytest.mark.parametrize("ahead", [0, 1, 2])
@pytest.mark.parametrize(
    ("module", "kernel", "constants"),
    [
        ("gemv", "_gemv_kernel",
         "K=4096, NORM=True, NORM_WEIGHT=True, BIAS=True, ACTIVATION=None, ROWS=4, BLOCK_K=1024"),
        ("few_rows", "_one_row_kernel", f"K=4096, {ONE_LAYER}, PAIRED=False, BLOCK_N=4, BLOCK_K=1024"),
        ("few_rows", "_one_row_kernel", f"K=4096, {ONE_LAYER}, PAIRED=True, BLOCK_N=2, BLOCK_K=1024"),
    ],
    ids=["gemv", "one row", "one row, paired"],
)  # fmt: skip
def test_one_row_reads_nothing_but_weights_before_it_waits(
    module: str, kernel: str, constants: str, ahead: int, tmp_path: Path
) -> None:
    told = steps(tmp_path, module, kernel, f"{constants}, AHEAD={ahead}")
    begun, *early = told[: told.index(WAITED)]
    assert begun == BEGUN
    assert told.count(BEGUN) == 1
    assert early == ["weight"] * (4 * ahead)  # of 4096 elements by 128 threads
    assert told.count("weight") == 16
    assert told[-1].startswith("st.global")


def test_few_rows_wait_before_they_read(tmp_path: Path) -> None:
    sizes = "BLOCK_M=16, BLOCK_N=64, BLOCK_K=128, TURNED=True"
    assert steps(tmp_path, "few_rows", "_few_rows_kernel", f"K=4096, {ONE_LAYER}, PAIRED=True, {sizes}")[:2] == [
        WAITED, BEGUN,
    ]  # fmt: skip


def test_what_joins_splits_begins_when_its_row_exists_and_waits_for_the_splits(tmp_path: Path) -> None:
    parts = "NORM_WEIGHT=True, WIDE=False, WHOLE_K=True, TURNED=False, SPLITS=2, BLOCK_M=16, BLOCK_N=32, BLOCK_K=256"
    assert steps(tmp_path, "rmsnorm_linear", "_skinny_kernel", parts, "y_ptr='*fp32'")[:2] == [WAITED, BEGUN]
    sizes = "SPLITS=2, BLOCK_K=1024, BLOCK_N=1024"
    joined = steps(tmp_path, "rmsnorm_linear", "_join_kernel", sizes, "shares_ptr='*fp32'")
    row, sums = ["ld.global.v4.b32"], ["ld.global.v4.b32"] * 4  # 16 bits and 32, of 1024 by 128 threads
    assert joined == [*row, WAITED, BEGUN, *sums, "st.global.v4.b32"]


def test_a_kernel_that_is_not_launched_early_neither_waits_nor_lets_the_next_begin(tmp_path: Path) -> None:
    """Each block would take longer to end."""
    source = FOR_AN_H100.format(module="copy", kernel="_copy_kernel", constants="BLOCK=512", types="")
    assert "griddepcontrol" in printed(source, cache=tmp_path)
    assert "griddepcontrol" not in printed(source.replace('"launch_pdl": True', '"launch_pdl": False'), cache=tmp_path)


def kernels() -> dict[str, str]:
    """The source of every kernel by its module and name."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        for kernel in KERNELS.finditer(path.read_text(encoding="utf-8")):
            found[f"{path.stem}.{kernel[1]}"] = kernel[0]
    return found


def test_every_kernel_waits_but_those_that_are_never_launched_early() -> None:
    found = kernels()
    assert {name for name, source in found.items() if "wait_for_previous(" not in source} == NEVER_EARLY | BY_WARPS
    for name in sorted(found.keys() - NEVER_EARLY - BY_WARPS - AHEAD):
        before, _ = found[name].split("wait_for_previous(", 1)
        touched = re.search(r"(?:load|store|atomic\w*|_?read\w*|write\w*|weight_tile|tile_of_heads)\(", before)
        assert not touched, (name, touched)


@pytest.mark.parametrize(
    ("module", "parts"),
    [("gemm_hopper", ("_copy_rows", "_copy_columns", "_multiply")), ("flash_attention_hopper", ("_load", "_compute"))],
)
def test_every_group_of_warps_waits(module: str, parts: tuple[str, ...]) -> None:
    text = (FOLDER / f"{module}.py").read_text(encoding="utf-8")
    for part in parts:
        source = text[text.index(f"def {part}(") :].split("\n\n\n", 1)[0]
        before, *rest = source.split("wait_for_previous()", 1)
        assert rest, (module, part)
        assert not re.search(r"async_copy|mbarrier|gl\.load\(|gl\.store\(", before), (module, part)


def test_what_never_waits_is_not_launched_early() -> None:
    for name in NEVER_EARLY:
        module, kernel = name.split(".")
        text = (FOLDER / f"{module}.py").read_text(encoding="utf-8")
        assert kernel in text
        assert "early=" not in text, name


def test_one_thread_of_the_last_blocks_lets_the_next_begin_or_none_does(tmp_path: Path) -> None:
    source = FOR_AN_H100.format(module="copy", kernel="_copy_kernel", constants="BLOCK=512", types="")
    early = printed(source, cache=tmp_path)
    asked, waited, begun = (early.index(part) for part in ("%nctaid.x", WAITED, f"@lets {BEGUN}"))
    assert asked < waited < begun
    assert early.count("%tid.x; ") == early.count(BEGUN) == 1
    at_end = printed(source.replace('"launch_pdl": True', f'"launch_pdl": {NEXT_BEGINS_AT_END}'), cache=tmp_path)
    assert WAITED in at_end
    assert BEGUN not in at_end


def test_a_kernel_that_has_let_the_next_begin_does_not_say_so_again() -> None:
    found = kernels()
    told = {name for name, source in found.items() if "let_next_begin()" in source}
    assert told == {name for name, source in found.items() if "next_began=True" in source}
    assert told >= {"gemv._gemv_kernel", "few_rows._one_row_kernel"}


@pytest.mark.gpu
def test_on_a_gpu_a_launch_knows_how_many_of_its_blocks_run_together() -> None:
    x = torch.randn(4 * multiprocessors(0) - 16, 4096, device="cuda").bfloat16()
    weight, values = torch.ones(4096, device="cuda"), {}
    for num_warps in (8, 16):  # a multiprocessor has room for six programs by their registers; for four by threads
        launch = prepare_add_rmsnorm(x, x, weight, Configuration.of(ROWS=1, BLOCK=4096, num_warps=num_warps))
        launch(x, x, weight, torch.empty_like(x), torch.empty_like(x), 1e-6)
        values[num_warps] = launch._options.get("launch_pdl")
    assert values == ({8: NEXT_BEGINS_AT_END, 16: NEXT_BEGINS_EARLY} if starts_early(0) else {8: None, 16: None})


@pytest.mark.gpu
def test_on_a_gpu_a_chain_of_small_kernels_gives_what_each_alone_gives() -> None:
    """Each reads what the one before has just written, the weights too; the launches follow each other in a graph."""

    def chain(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor, wait: bool) -> list[torch.Tensor]:
        results = []

        def kept(result: torch.Tensor) -> torch.Tensor:
            results.append(result)
            if wait:
                torch.cuda.synchronize()
            return result

        for _ in range(20):
            weight = kept(matmul(w, w.t()))
            normed = kept(rmsnorm(x, scale))
            products = kept(rmsnorm_linear(normed[:1], scale, weight))
            joined = kept(joined_linear(products, (weight,), norm_weight=scale))
            many = kept(rmsnorm_linear(normed, scale, weight))
            gated = kept(swiglu(many, normed))
            x, _ = add_rmsnorm(gated, normed + joined, scale)
            kept(x)
            w = kept(softmax(weight))
        return results

    torch.manual_seed(0)
    for rows in (16, 64, 200):
        x = torch.randn(rows, 1024, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16) / 32
        scale = torch.rand(1024, device="cuda", dtype=torch.bfloat16) + 0.5
        alone = chain(x, w, scale, wait=True)
        graph = torch.cuda.CUDAGraph()
        chain(x, w, scale, wait=False)
        with torch.cuda.graph(graph):
            together = chain(x, w, scale, wait=False)
        for _ in range(20):
            for result in together:
                result.fill_(float("nan"))
            graph.replay()
            for one, other in zip(alone, together, strict=True):
                assert torch.equal(one, other)
