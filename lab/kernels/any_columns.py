"""Matrix products of any multiple of 8 columns, which a Hopper's matrix unit has and Gluon of Triton 3.6 has not.

PTX ISA, "wgmma.mma_async". In Gluon a tensor has a power of two of columns. So a kernel multiplies tensors with the
next power of two, says with `only_columns` how many of them count, and its PTX is changed: its products are of so many
columns, and write the first registers of the sums, which hold them. The assembler keeps no registers for the others.

Tried, and slower: two products, of 128 and of 32 columns, in place of one of 160. On an H100 they took as long as 192.
"""

import re

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from lab.kernels.changed_ptx import Change, not_known, version_of

VERSION = gl.constexpr(version_of(__file__))
MARKS = re.compile(rf"// (\d+) of (\d+) columns {VERSION.value}")
PRODUCT = re.compile(r"(wgmma\.mma_async\.sync\.aligned\.m64n)(\d+)(k\d+\.[\w.]+\s*)\{([^}]*)\}")
SUMS_OF_EIGHT = 4  # registers of a thread for 8 columns


@gluon.jit
def only_columns(COLUMNS: gl.constexpr, OF: gl.constexpr):
    """All products of this kernel are of the first COLUMNS of tensors with OF columns."""
    gl.inline_asm_elementwise(
        f"mov.u32 $0, $1; // {COLUMNS} of {OF} columns {VERSION}", "=r,r", [gl.program_id(0)], gl.int32,
        is_pure=False, pack=1,
    )  # fmt: skip


def fewer_columns(ptx: str) -> str:
    """The PTX of a kernel with its products of fewer columns, if it says so. RuntimeError if PTX is not known."""
    marks = set(MARKS.findall(ptx))
    if not marks:
        return ptx
    products = set(PRODUCT.findall(ptx))
    if len(marks) != 1 or not products or {of for _, of, *_ in products} != {of for _, of in marks}:
        raise not_known(f"{sorted(marks)} columns are marked, and {len(products)} products found")
    ((columns, _),) = marks

    def product(found: re.Match[str]) -> str:
        sums = found[4].split(",")[: int(columns) // 8 * SUMS_OF_EIGHT]
        return f"{found[1]}{columns}{found[3]}{{{','.join(sums)}}}"

    return PRODUCT.sub(product, ptx)


FEWER_COLUMNS = Change(VERSION.value, fewer_columns)
