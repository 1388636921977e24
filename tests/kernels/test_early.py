"""Kernels that begin before the one before them has finished wait for its results."""

import re
from pathlib import Path

import pytest
import torch

import lab.kernels
from lab.kernels.add_rmsnorm import add_rmsnorm
from lab.kernels.few_rows import joined_linear
from lab.kernels.glu import swiglu
from lab.kernels.matmul import matmul
from lab.kernels.rmsnorm import rmsnorm
from lab.kernels.rmsnorm_linear import rmsnorm_linear
from lab.kernels.softmax import softmax

FOLDER = Path(lab.kernels.__path__[0])
KERNELS = re.compile(r"@(?:triton|gluon)\.jit.*\ndef (_\w+_kernel)\((?:.|\n)*?(?=\n\n\n)")
LAUNCHED = re.compile(r"Launch\(\s*(_\w+_kernel)(?:.|\n)*?(?=\n    \)|\n        \)|\)\n)")
# These read first what no kernel that may still run has written; how they do it is tested where they are.
AHEAD = {"_gemv_kernel", "_one_row_kernel", "_softmax_join_kernel", "_join_kernel"}
BY_WARPS = {"_hopper_gemm_kernel", "_flash_attention_hopper_kernel"}  # each group of warps waits for itself


def test_a_kernel_waits_before_it_touches_memory() -> None:
    checked = set()
    for path in sorted(FOLDER.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "early=True" not in text and "wait_for_previous()" not in text:
            continue
        for kernel in KERNELS.finditer(text):
            name, body = kernel[1], kernel[0]
            if name in AHEAD | BY_WARPS or "wait_for_previous()" not in body:
                continue
            before, _ = body.split("wait_for_previous()", 1)
            assert not re.search(r"(?:load|store|atomic_\w+|read_\w+|write_\w+|tile_of_heads)\(", before), (path, name)
            checked.add(name)
    assert len(checked) > 25


def test_only_kernels_that_wait_are_launched_early() -> None:
    waiting = {
        kernel[1]
        for path in FOLDER.glob("*.py")
        for kernel in KERNELS.finditer(path.read_text(encoding="utf-8"))
        if "wait_for_previous()" in kernel[0]
    } | BY_WARPS
    launched = set()
    for path in sorted(FOLDER.glob("*.py")):
        for launch in LAUNCHED.finditer(path.read_text(encoding="utf-8")):
            if "early=True" in launch[0]:
                launched.add(launch[1])
    assert launched
    assert launched <= waiting


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
