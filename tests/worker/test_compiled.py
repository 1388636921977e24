"""What Triton made of a profile. It compiles for an H100 without one; only loading a kernel needs the GPU."""

import importlib.util
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from lab.kernels import cuda_build, cuda_launch
from lab.kernels.cuda_launch import CudaKernel
from lab.worker.compiled import compilation_of, describe
from lab.worker.launches import seen
from lab.worker.ptx import code_digest

pytestmark = pytest.mark.compiles

H100 = GPUTarget("cuda", 90, 32)
SOURCE = """
    import triton.language as tl

    def scale(x_ptr, y_ptr, N, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
        lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + lanes, mask=lanes < N)
        tl.store(y_ptr + lanes, x * FACTOR, mask=lanes < N)
"""
Compile = Callable[..., CompiledKernel]


@pytest.fixture
def compile_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """Compile the kernel from a file of this folder for an H100, with a cache of its own unless one is named."""

    def compiled(folder: str, *, source: str = SOURCE, cache: str = "", factor: int = 3, warps: int = 4) -> Any:
        path = tmp_path / folder / "kernel.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(source))
        spec = importlib.util.spec_from_file_location("kernel", path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / (cache or f"cache-{folder}")))
        signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "N": "i32", "FACTOR": "constexpr", "BLOCK": "constexpr"}
        constants = {"FACTOR": factor, "BLOCK": 1024}
        kernel = triton.compile(
            ASTSource(fn=JITFunction(module.scale), signature=signature, constexprs=constants),
            target=H100, options={"num_warps": warps},
        )  # fmt: skip
        kernel.n_regs, kernel.n_spills = 24, 2  # the driver's answer, when it loads a kernel
        return kernel

    return compiled


def test_a_kernel_is_described_as_it_was_compiled(compile_in: Compile) -> None:
    kernel = describe(compile_in("here", warps=8))
    assert (kernel.name, kernel.registers_per_thread, kernel.spills) == ("scale", 24, 2)
    assert (kernel.warps, kernel.stages, kernel.shared_bytes) == (8, 3, 0)
    assert kernel.configuration == {"FACTOR": "3", "BLOCK": "1024"}
    assert len(kernel.code_sha256) == 64


def test_the_same_code_has_the_same_digest_wherever_its_source_lies(compile_in: Compile) -> None:
    here = compile_in("here")
    there = compile_in("there", source=f"# a comment\n\n{textwrap.dedent(SOURCE)}")
    assert "/here/kernel.py" in here.asm["ptx"]
    assert "/there/kernel.py" in there.asm["ptx"]
    assert describe(here).code_sha256 == describe(there).code_sha256


@pytest.mark.parametrize(
    "change", [{"factor": 5}, {"warps": 8}, {"source": SOURCE.replace("x * FACTOR", "FACTOR - x")}]
)
def test_other_code_has_another_digest(compile_in: Compile, change: dict[str, Any]) -> None:
    assert describe(compile_in("here")).code_sha256 != describe(compile_in("there", **change)).code_sha256


def test_one_instruction_more_is_other_code(compile_in: Compile) -> None:
    ptx = compile_in("here").asm["ptx"]
    assert code_digest(ptx) != code_digest(ptx.replace("\tret;", "\tbar.sync 0;\n\tret;"))


def test_what_compiling_took_is_reported_and_a_kernel_from_the_cache_took_nothing(compile_in: Compile) -> None:
    fresh = compilation_of(lambda: compile_in("here", cache="shared"), again=False)
    assert fresh.compile_seconds
    assert 0 < fresh.compile_seconds < fresh.seconds
    cached = compilation_of(lambda: compile_in("here", cache="shared"), again=False)
    assert cached.compile_seconds is None
    assert cached.seconds > 0


def test_nothing_of_triton_is_nothing_compiled_and_nothing_chosen() -> None:
    compilation = compilation_of(lambda: torch.ones(8) * 2, again=True)
    assert (compilation.compile_seconds, compilation.autotune_seconds, compilation.compiled) == (None, None, ())


def test_the_kernels_of_the_second_call_are_reported_each_once(
    compile_in: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CompiledKernel, "_init_handles", lambda kernel: None)
    tried, chosen = compile_in("here", warps=8), compile_in("there")
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        for kernel in [tried, chosen] if len(calls) == 1 else [chosen, chosen]:
            assert kernel.launch_metadata((1,), 0).get()["name"] == "scale"

    assert compilation_of(call, again=True).compiled == (describe(chosen),)
    assert len(calls) == 2


def test_where_nothing_can_be_compiled_there_is_no_second_call() -> None:
    calls: list[int] = []
    assert compilation_of(lambda: calls.append(1), again=False).compiled == ()
    assert calls == [1]


@triton.jit
def _fill(y_ptr: Any, BLOCK: tl.constexpr) -> None:
    tl.store(y_ptr + tl.arange(0, BLOCK), 1.0)


def test_choosing_a_configuration_takes_time_once() -> None:
    y = torch.zeros(64, device="cuda" if torch.cuda.is_available() else "cpu")
    configurations = [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})]

    def bench(kernel: Callable[[], None], quantiles: Any) -> list[float]:
        kernel()
        return [1.0] * len(quantiles)

    tuned = triton.autotune(configurations, key=[], do_bench=bench)(_fill)
    first = compilation_of(lambda: tuned[(1,)](y), again=False)
    assert first.autotune_seconds
    assert 0 < first.autotune_seconds < first.seconds
    assert compilation_of(lambda: tuned[(1,)](y), again=False).autotune_seconds is None


def test_triton_is_as_it_was_after_a_call_that_failed() -> None:
    before = Autotuner.run, CompiledKernel.launch_metadata, knobs.compilation.listener

    def fail() -> None:
        raise RuntimeError("no such kernel")

    with pytest.raises(RuntimeError, match="no such kernel"):
        compilation_of(fail, again=True)
    assert (Autotuner.run, CompiledKernel.launch_metadata, knobs.compilation.listener) == before


@pytest.mark.gpu
def test_the_labs_own_kernel_is_described_on_a_gpu() -> None:
    from lab.kernels.rmsnorm import rmsnorm, rmsnorm_inputs

    inputs = rmsnorm_inputs((512, 1024), torch.float16, "cuda", 1)
    (kernel,) = compilation_of(lambda: rmsnorm(*inputs), again=True).compiled
    assert kernel.name == "_rmsnorm_kernel"
    assert 8 <= kernel.registers_per_thread <= 255
    assert kernel.spills == 0
    assert kernel.configuration["N"] == "1024"


def test_a_cuda_kernel_is_seen_and_described_and_its_compilation_is_counted() -> None:
    kernel = CudaKernel(
        name="softmax_cuda", registers_per_thread=40, spilled_bytes=8, shared_bytes=256, threads=224,
        configuration=(("vectors", "4"), ("compiler", "release 13.0")), code_sha256="ab",
    )  # fmt: skip
    calls: list[int] = []

    def call() -> None:
        if not calls:
            for listen in cuda_build.compile_listeners:
                listen(1.5)
        calls.append(1)
        for listen in cuda_launch.launch_listeners:
            listen(kernel)

    compilation = compilation_of(call, again=True)
    assert compilation.compile_seconds == 1.5
    (described,) = compilation.compiled
    assert (described.name, described.registers_per_thread, described.spills, described.shared_bytes) == (
        "softmax_cuda",
        40,
        2,
        256,
    )
    assert (described.warps, described.configuration["compiler"], described.code_sha256) == (7, "release 13.0", "ab")
    with seen() as names:
        call()
    assert names == {"softmax_cuda"}
    assert not cuda_build.compile_listeners
    assert not cuda_launch.launch_listeners
