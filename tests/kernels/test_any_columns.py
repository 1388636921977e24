"""Products of any number of columns: what becomes of a kernel's PTX. Values are tested where products are."""

import pytest

from lab.kernels.any_columns import VERSION, fewer_columns

SUMS = ", ".join(f"%f{i}" for i in range(64))
KERNEL = f"""
	mov.u32 %r1, %r2; // 80 of 128 columns {VERSION.value}
	wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{{SUMS}}}, %rd1, %rd2, p, 1, 1, 0, 0;
	wgmma.wait_group.sync.aligned 1;
"""


def test_a_product_has_the_columns_that_are_marked_and_their_sums() -> None:
    made = fewer_columns(KERNEL)
    (product,) = (line for line in made.splitlines() if "mma_async" in line)
    assert "m64n80k16.f32.bf16.bf16 {%f0, %f1," in product
    assert "%f38, %f39}, %rd1, %rd2, p, 1, 1, 0, 0;" in product  # 40 sums of 80 columns in a thread
    assert made.replace(product, "") == KERNEL.replace(KERNEL.splitlines()[2], "")


def test_other_kernels_stay_as_they_are() -> None:
    other = KERNEL.replace("columns", "rows")
    assert fewer_columns(other) == other


@pytest.mark.parametrize(
    ("expected", "other"),
    [
        ("wgmma.mma_async", "tcgen05.mma"),
        ("m64n128", "m64n256"),
        (";\n\twgmma.wait", f"; // 96 of 128 columns {VERSION.value}\n\twgmma.wait"),
    ],
    ids=["another instruction", "another width", "two marks"],
)
def test_ptx_that_is_not_known_is_refused(expected: str, other: str) -> None:
    with pytest.raises(RuntimeError, match=r"is not that of Triton 3\.6"):
        fewer_columns(KERNEL.replace(expected, other))
