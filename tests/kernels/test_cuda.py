"""CUDA C++ kernels: what can be asked without a GPU of how they are built, planned and refused; the rest with one."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lab.kernels import cuda_build
from lab.kernels.cuda_build import CompilerFailed, CompilerMissing, architecture, built, missing_compiler
from lab.kernels.cuda_glu import GluShape, _GluPlan, swiglu_cuda
from lab.kernels.cuda_launch import is_float_beside, launch_listeners, vector_width
from lab.kernels.cuda_rope import RopeShape, _RopePlan, rope_cuda, rope_qk_cuda, rope_qk_cuda_
from lab.kernels.cuda_rows import (
    MAXIMUM_COLUMNS,
    TWO_LOADS_BYTES,
    RowShape,
    _RowPlan,
    rmsnorm_cuda,
    row_shape,
    softmax_cuda,
)
from lab.kernels.glu import swiglu_reference
from lab.kernels.rmsnorm import rmsnorm_reference
from lab.kernels.rope import angle_tables, rope_qk_reference
from lab.kernels.softmax import softmax_reference
from tests.kernels.accuracy import DTYPES, assert_near

with_nvcc = pytest.mark.skipif(bool(missing_compiler()), reason="nvcc is not on this machine")
NAMES = ("rmsnorm", "softmax", "swiglu", "rope")
PLANS = {"rmsnorm": _RowPlan, "softmax": _RowPlan, "swiglu": _GluPlan, "rope": _RopePlan}
# Of vectors of 16 bytes, and of single elements: what the sources dispatch to.
VECTORED = {"warp": (1, 2, 4), "block": (1, 2, 4, 8), "cluster": (2, 4, 8)}
UNVECTORED = {"warp": (4,), "block": (8,), "cluster": (32,)}


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each compilation took that was made since."""
    heard: list[float] = []
    monkeypatch.setattr(cuda_build, "compile_listeners", [heard.append])
    return heard


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("vectored", [True, False])
@pytest.mark.parametrize("two_loads_bytes", [TWO_LOADS_BYTES, 0])
def test_every_row_is_spread_over_threads_that_hold_it_and_that_the_sources_know(
    itemsize: int, vectored: bool, two_loads_bytes: int
) -> None:
    width = 16 // itemsize if vectored else 1
    columns = [*range(width, 5000, width), *range(5000 // width * width, 262_144 + 1, 1009 * width), 262_144]
    for N in columns:
        shape = row_shape(N, itemsize, vectored=vectored, two_loads_bytes=two_loads_bytes)
        assert shape.vectors * shape.threads * shape.cluster * width >= N, (N, shape)
        where = "cluster" if shape.cluster > 1 else "warp" if shape.rows_per_block > 1 else "block"
        assert shape.vectors in (VECTORED if vectored else UNVECTORED)[where], (N, shape)
        assert shape.cluster in (1, 2, 4, 8, 16)
        assert shape.block_threads % 32 == 0, (N, shape)
        # As __launch_bounds__ in rows.cuh has it.
        register_bytes = shape.vectors * max(4, width * itemsize)
        most = 256 if where == "warp" else 1024 if register_bytes <= 32 else 512
        assert shape.block_threads <= most, (N, shape)


@pytest.mark.parametrize(("itemsize", "vectored"), [(2, False), (4, True), (4, False)])
def test_rows_wider_than_accepted_would_not_fit_into_sixteen_blocks(itemsize: int, vectored: bool) -> None:
    width = 16 // itemsize if vectored else 1
    shape = row_shape(MAXIMUM_COLUMNS, itemsize, vectored=vectored)
    assert shape.vectors * shape.threads * shape.cluster * width == MAXIMUM_COLUMNS
    assert shape.cluster == 16


def test_no_lane_is_idle_at_the_hidden_sizes_of_known_models() -> None:
    for N in (1536, 2048, 3072, 3584, 4096, 5120, 8192):
        shape = row_shape(N, 2, vectored=True)
        assert shape.vectors * shape.threads * 8 == N, (N, shape)


def test_sixteen_bytes_are_read_at_once_only_where_everything_is_aligned() -> None:
    x = torch.zeros(64, dtype=torch.float16)
    assert vector_width(x, sizes=(64, 8)) == 8
    assert vector_width(x.float(), sizes=(64, 4)) == 4
    assert vector_width(x, sizes=(64, 12)) == 1
    assert vector_width(x[1:], sizes=(8,)) == 1


def test_a_companion_is_of_the_same_dtype_or_float32() -> None:
    x = torch.zeros(1, dtype=torch.float16)
    assert not is_float_beside("op", "weight", x, x)
    assert is_float_beside("op", "weight", x.float(), x)
    with pytest.raises(ValueError, match=r"op: weight has dtype torch.bfloat16; accepted are that of x, torch.float16"):
        is_float_beside("op", "weight", x.bfloat16(), x)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: rmsnorm_cuda(x, x[0]), "rmsnorm_cuda: x"),
        (lambda x: softmax_cuda(x), "softmax_cuda: x"),
        (lambda x: swiglu_cuda(x, x), "swiglu_cuda: gate"),
        (lambda x: rope_cuda(x[None, None], x[:, :1], x[:, :1]), "rope_cuda: x"),
        (lambda x: rope_qk_cuda(x[None, None], x[None, None], x[:, :1], x[:, :1]), "rope_qk_cuda: q"),
    ],
)
def test_a_tensor_on_the_cpu_is_refused(call: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}.* is on cpu; accepted is a CUDA device"):
        call(torch.zeros(2, 2))


def test_without_nvcc_the_reason_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_file", lambda path: False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert missing_compiler() == (
        "CUDA's compiler, nvcc, is not on this machine: it is neither in CUDA_HOME nor on PATH nor in its usual folder"
    )
    with pytest.raises(CompilerMissing, match="nvcc, is not on this machine"):
        cuda_build.nvcc()


def test_a_chip_without_clusters_is_refused() -> None:
    assert architecture(90) == "sm_90a"
    with pytest.raises(CompilerMissing, match=r"compute capability 8.6; accepted are 9.0 and later"):
        architecture(86)


@with_nvcc
@pytest.mark.parametrize("name", NAMES)
def test_the_plan_that_python_fills_is_the_one_that_the_source_reads(name: str, own_cache: Path) -> None:
    loaded = ctypes.CDLL(str(built(name, torch.float16, "sm_90a")))
    assert loaded.plan_bytes() == ctypes.sizeof(PLANS[name])
    loaded.error_text.restype = ctypes.c_char_p
    assert loaded.error_text(1) == b"invalid argument"


@with_nvcc
def test_what_was_built_is_kept_until_a_source_changes(
    own_cache: Path, seconds: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_cache / "small.cu").write_text('#include "small.cuh"\nint run() { return SMALL; }\n')
    (own_cache / "small.cuh").write_text("#define SMALL 1\n")
    monkeypatch.setattr(cuda_build, "SOURCES", own_cache)
    first = built("small", torch.float32, "sm_90a")
    assert built("small", torch.float32, "sm_90a") == first
    assert len(seconds) == 1
    assert seconds[0] > 0
    (own_cache / "small.cuh").write_text("#define SMALL 2\n")
    assert built("small", torch.float32, "sm_90a") != first
    assert len(seconds) == 2


@with_nvcc
def test_what_the_compiler_complains_of_is_reported_and_nothing_is_kept(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_cache / "broken.cu").write_text("int run() { return missing; }\n")
    monkeypatch.setattr(cuda_build, "SOURCES", own_cache)
    with pytest.raises(CompilerFailed) as refused:
        built("broken", torch.float32, "sm_90a")
    assert re.match(r'nvcc could not compile broken.cu for sm_90a: .*"missing" is undefined', str(refused.value))
    assert not list(own_cache.rglob("*.so"))


@with_nvcc
@pytest.mark.compiles
@pytest.mark.parametrize("name", NAMES)
def test_no_register_spills_and_loads_are_of_sixteen_bytes(name: str, tmp_path: Path) -> None:
    """For bfloat16, whose kernels hold most."""
    source, cubin = cuda_build.SOURCES / f"{name}.cu", tmp_path / "it.cubin"
    command = [cuda_build.nvcc(), "-std=c++17", "-O3", "-cubin", "-arch=sm_90a", "-DElement=__nv_bfloat16"]
    kept = ["--keep", "--keep-dir", tmp_path]  # PTX, on the way to the code
    done = subprocess.run(
        [*command, *kept, "-Xptxas", "-v", "-o", cubin, source], capture_output=True, text=True, check=True
    )
    spills = re.findall(r"(\d+) bytes spill stores", done.stderr)
    assert spills
    assert set(spills) == {"0"}
    ptx = (tmp_path / f"{name}.ptx").read_text()
    assert "ld.global" in ptx
    assert re.search(r"ld\.global(\.nc)?\.v4", ptx)
    assert re.search(r"st\.global\.v4", ptx)


def _unaligned(x: Tensor) -> Tensor:
    """The same values, one element off an alignment of 16 bytes."""
    flat = torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)[1:]
    return flat.copy_(x.flatten()).view(x.shape)


def _strided(x: Tensor, extra: int) -> Tensor:
    """The same values as rows of a wider buffer."""
    wide = torch.zeros((*x.shape[:-1], x.shape[-1] + extra), dtype=x.dtype, device=x.device)
    rows = wide[..., : x.shape[-1]]
    return rows.copy_(x)


COLUMNS = (1, 7, 64, 100, 512, 896, 1000, 3584, 4096, 4097, 8200, 18_944, 65_536, 65_537, 131_072, 262_144)


@pytest.mark.gpu
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_on_a_gpu_rows_agree_with_float64(columns: int, dtype: torch.dtype) -> None:
    x = torch.randn(5, columns, dtype=dtype, device="cuda") + 0.3
    weight = torch.rand(columns, dtype=dtype, device="cuda")
    for rows in (x, _strided(x, 8), _strided(x, 3), _unaligned(x)):
        assert_near(rmsnorm_cuda(rows, weight), rmsnorm_reference(rows, weight), x)
        assert_near(rmsnorm_cuda(rows, weight.float()), rmsnorm_reference(rows, weight), x)
        assert_near(softmax_cuda(rows), softmax_reference(rows), x)


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [100, 1000, 4096, 131_072])
def test_on_a_gpu_nan_and_infinity_poison_their_own_row_only(columns: int) -> None:
    x = torch.randn(5, columns, device="cuda")
    x[1, columns // 2], x[2, -1], x[3], x[4, : columns // 2] = float("nan"), float("inf"), float("-inf"), float("-inf")
    assert torch.equal(softmax_cuda(x).isnan(), F.softmax(x, -1).isnan())
    ones = torch.ones(columns, device="cuda")
    assert torch.equal(rmsnorm_cuda(x, ones).isnan(), F.rms_norm(x, (columns,), ones, 1e-6).isnan())


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(1,), (7,), (501, 501), (16, 18_944), (2, 3, 4864)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_on_a_gpu_swiglu_agrees_with_float64(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    packed = torch.randn(*shape[:-1], 2 * shape[-1], dtype=dtype, device="cuda")
    gate, up = packed[..., : shape[-1]], packed[..., shape[-1] :]
    for pair in ((gate, up), (gate.contiguous(), up.contiguous()), (_unaligned(gate), up.contiguous())):
        for spread in (None, GluShape(2, 128), GluShape(4, 512)):
            assert_near(swiglu_cuda(*pair, shape=spread), swiglu_reference(gate, up), gate)


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [(2, 28, 4, 17, 128), (3, 5, 1, 1, 64), (1, 3, 2, 7, 80), (1, 2, 2, 5, 2)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_on_a_gpu_rope_agrees_with_float64(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    B, q_heads, k_heads, S, D = sizes
    q, k = (torch.randn(B, S, H, D, dtype=dtype, device="cuda").transpose(1, 2) for H in (q_heads, k_heads))
    for angles in {dtype, torch.float32}:
        for features in {D, D // 2 + D // 2 % 2}:
            cos, sin = angle_tables(S, features, dtype=angles, device="cuda")
            truths = rope_qk_reference(q, k, cos, sin)
            for spread in (None, RopeShape(1, 64), RopeShape(4, 256)):
                outs = rope_qk_cuda(q, k, cos, sin, shape=spread)
                there = rope_qk_cuda_(q.clone(), k.clone(), cos, sin, shape=spread)
                for out, same, truth in zip(outs, there, truths, strict=True):
                    assert_near(out.contiguous(), truth, out)
                    assert torch.equal(out, same)
            assert torch.equal(rope_cuda(q, cos, sin), outs[0])


@pytest.mark.gpu
def test_on_a_gpu_a_captured_graph_replays_on_new_data() -> None:
    x = torch.randn(64, 4096, dtype=torch.float16, device="cuda")
    weight = torch.ones(4096, dtype=torch.float16, device="cuda")
    rmsnorm_cuda(x, weight)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = rmsnorm_cuda(x, weight)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert_near(y, rmsnorm_reference(x, weight), x)


@pytest.mark.gpu
def test_on_a_gpu_a_launch_tells_what_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    monkeypatch.setattr("lab.kernels.cuda_launch.launch_listeners", heard)
    launched: list[Any] = []
    heard.append(launched.append)
    softmax_cuda(torch.randn(64, 4096, dtype=torch.float16, device="cuda"))
    (kernel,) = launched
    assert (kernel.name, kernel.threads, kernel.spilled_bytes) == ("softmax_cuda", 128, 0)
    assert "release" in dict(kernel.configuration)["compiler"]
    assert launch_listeners is not heard


@pytest.mark.gpu
def test_on_a_gpu_a_spread_that_does_not_hold_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match=r"holds fewer than the 4096 columns of a row"):
        softmax_cuda(torch.zeros(1, 4096, device="cuda"), shape=RowShape(vectors=1, threads=32))
