"""Two programs of a cluster share a tile that TMA reads: each copies half of it to both.

CUDA C++ Programming Guide, "Thread Block Clusters"; PTX ISA, "cp.async.bulk.tensor", `.multicast::cluster`. Gluon of
Triton 3.6 has no such copies, and its clusters (`num_ctas`) do not know Hopper's matrix unit. So a kernel is written as
for one program, says with `next_copy_to_both` which copies are shared, and its PTX is changed: these copies are marked
as multicasts, every `mbarrier.arrive` arrives at both programs, and the grid consists of clusters of two.

Arrivals have no `.release.cluster`: the assembler puts a memory barrier of the whole GPU before each, with which a step
of a product took 1.3 µs instead of 0.7. TMA needs no such barrier, as in CUTLASS.
"""

import re

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from lab.kernels.changed_ptx import Change, not_known, version_of

CLUSTER = 2  # programs
VERSION = version_of(__file__)
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
        raise not_known(f"of {marks} copies {copies} could be shared, with {arrivals} arrivals")
    return ptx


SHARED_COPIES = Change(VERSION, shared_copies)
