"""Two programs of a cluster share a tile that the copy engine reads: each copies half of it to both.

CUDA C++ Programming Guide, "Thread Block Clusters"; PTX ISA, "cp.async.bulk.tensor", `.multicast::cluster`. Gluon of
Triton 3.6 has no such copies, and its clusters (`num_ctas`) do not know Hopper's matrix unit. So a kernel is written as
for one program, says with `next_copy_to_both` which copies are shared, and its PTX is changed: these copies are marked
as multicasts, every `mbarrier.arrive` arrives at both programs, and the grid consists of clusters of two.

Arrivals have no `.release.cluster`: the assembler puts a memory barrier of the whole GPU before each, with which a step
of a product took 1.3 µs instead of 0.7. The copy engine needs no such barrier, as in CUTLASS.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from lab.kernels.launch import Launch, capability

CLUSTER = 2  # programs
TRIED = ("3.6.",)  # versions of Triton, on a GPU; of 3.7.1 only the PTX
_ONE_AT_A_TIME = threading.RLock()  # Triton has one hook for all threads

# Triton keeps compiled kernels under a digest of their source, which must change if the changes of this file do.
VERSION = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
MARK = gl.constexpr(f"mov.u32 $0, $1; // multicast {VERSION}")
# A kernel that is launched without its cluster would wait forever: it ends with an error instead.
MEET = gl.constexpr(f"""
{{
  .reg .pred %alone;
  .reg .b32 %programs;
  mov.u32 %programs, %cluster_nctarank;
  setp.ne.u32 %alone, %programs, {CLUSTER};
  @%alone trap;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  mov.u32 $0, $1;
}}
""")

COPY = re.compile(
    rf"(// multicast {VERSION}\n(?:(?!cp\.async|\$L__BB|\bbra\b).)*?cp\.async\.bulk\.tensor\.2d\.)"
    r"shared::(?:cta|cluster)"
    r"(\.global\.mbarrier::complete_tx::bytes)( \[%\w+\], \[%\w+, \{%\w+, %\w+\}\], \[%\w+\]);",
    re.DOTALL,
)
ARRIVAL = re.compile(r"(@%\w+) mbarrier\.arrive\.shared::cta\.b64 _, \[(%\w+)\](?:, 1)?;")
ARRIVALS = "\n".join((
    "{", "\t.reg .b32 %there;",
    *(f"\tmapa.shared::cluster.u32 %there, \\2, {program};\n\t\\1 mbarrier.arrive.shared::cluster.b64 _, [%there];"
      for program in range(CLUSTER)),
    "\t}",
))  # fmt: skip
THREADS = re.compile(r"(\.reqntid [\d, ]+\n)")
BODY = re.compile(r"^\{\n", re.MULTILINE)


@gluon.jit
def meet(PROGRAMS: gl.constexpr):
    """Wait until all warps of both programs are here, and their barriers are initialised. All must call this."""
    if PROGRAMS > 1:
        gl.inline_asm_elementwise(MEET, "=r,r", [gl.program_id(0)], gl.int32, is_pure=False, pack=1)


@gluon.jit
def next_copy_to_both():
    """The next copy in the code goes to the same place in both programs, and is counted by both."""
    gl.inline_asm_elementwise(MARK, "=r,r", [gl.program_id(0)], gl.int32, is_pure=False, pack=1)


def can_share(device: int) -> bool:
    """Whether kernels on the GPU with this index may share copies: on a Hopper, with a Triton whose PTX is known."""
    return capability(device)[0] == 9 and triton.__version__.startswith(TRIED)


class SharingLaunch(Launch):
    """The launch of a kernel with `next_copy_to_both`; its programs are those of all clusters."""

    __slots__ = ()

    def _launch_by_triton(self, arguments: tuple[Any, ...]) -> None:
        with sharing():
            super()._launch_by_triton(arguments)


@contextmanager
def sharing() -> Iterator[None]:
    """While this is entered, kernels with `next_copy_to_both` are compiled for a cluster. It does not touch others, but
    another thread must not change Triton's hook meanwhile. One thread at a time is in here."""
    with _ONE_AT_A_TIME, _hooked():
        yield


@contextmanager
def _hooked() -> Iterator[None]:
    before = knobs.runtime.add_stages_inspection_hook

    def hook(backend: Any = None, stages: Any = None, *rest: Any) -> tuple[str, str] | None:
        told = None if before is None else before(*(() if backend is None else (backend, stages, *rest)))
        if backend is None:  # Triton 3.7 asks for the keys of its caches
            key, digest = told or ("", "")
            return key + VERSION, digest + VERSION
        make: Callable[..., str] = stages["ptx"]
        stages["ptx"] = lambda source, metadata: shared_copies(make(source, metadata))
        return None

    knobs.runtime.add_stages_inspection_hook = hook
    try:
        yield
    finally:
        knobs.runtime.add_stages_inspection_hook = before


def shared_copies(ptx: str) -> str:
    """The PTX of a kernel with its marked copies shared; as it is if it has none. RuntimeError if PTX is not known."""
    marks = ptx.count(f"// multicast {VERSION}")
    if not marks:
        return ptx
    ptx, copies = COPY.subn(r"\1shared::cluster\2.multicast::cluster\3, %both;", ptx)
    ptx, arrivals = ARRIVAL.subn(ARRIVALS, ptx)
    ptx, grids = THREADS.subn(rf"\1.explicitcluster\n.reqnctapercluster {CLUSTER}, 1, 1\n", ptx)
    ptx, bodies = BODY.subn(f"{{\n\t.reg .b16 %both;\n\tmov.b16 %both, {(1 << CLUSTER) - 1};\n", ptx, count=1)
    if copies != marks or not arrivals or (grids, bodies) != (1, 1) or "mbarrier.arrive.shared::cta" in ptx:
        raise RuntimeError(
            f"the PTX of Triton {triton.__version__} is not that of Triton 3.6: of {marks} copies {copies} could be "
            f"shared, with {arrivals} arrivals"
        )
    return ptx
