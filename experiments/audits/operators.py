"""The least work of the audited operators: what a call must read and write at least once, and its FLOPs."""

from lab.kernels.traffic import Traffic

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


def elementwise(elements: int, dtype: str, *, reads: int, flops: int = 1) -> Traffic:
    """`reads` tensors in, one out, `flops` operations an element."""
    return Traffic(
        read_bytes=reads * elements * BYTES[dtype], written_bytes=elements * BYTES[dtype], flops=flops * elements
    )


def reduction(elements: int, dtype: str) -> Traffic:
    return Traffic(read_bytes=elements * BYTES[dtype], written_bytes=4, flops=elements - 1)


def softmax(rows: int, columns: int, dtype: str) -> Traffic:
    return elementwise(rows * columns, dtype, reads=1, flops=5)


def rmsnorm(rows: int, columns: int, dtype: str) -> Traffic:
    return _norm(rows, columns, dtype, vectors=1, flops=4)


def layernorm(rows: int, columns: int, dtype: str) -> Traffic:
    return _norm(rows, columns, dtype, vectors=2, flops=7)


def _norm(rows: int, columns: int, dtype: str, *, vectors: int, flops: int) -> Traffic:
    """x and one or two vectors in, y out; each vector is read once, not once a row."""
    size = BYTES[dtype]
    return Traffic(
        read_bytes=(rows + vectors) * columns * size, written_bytes=rows * columns * size, flops=flops * rows * columns
    )


def rmsnorm_rope(batch: int, sequence: int, hidden: int, head: int) -> Traffic:
    """x, weight, cos and sin in, y out, all float16."""
    read = batch * sequence * hidden + hidden + 2 * sequence * head
    return Traffic(
        read_bytes=2 * read, written_bytes=2 * batch * sequence * hidden, flops=7 * batch * sequence * hidden
    )


def rope(heads: int, sequence: int, head: int) -> Traffic:
    """x in and y out in float16; cos and sin, half a head wide, in float32."""
    elements = heads * sequence * head
    return Traffic(read_bytes=2 * elements + 4 * sequence * head, written_bytes=2 * elements, flops=3 * elements)


def swiglu(elements: int, dtype: str) -> Traffic:
    return elementwise(elements, dtype, reads=2, flops=5)


def matmul(m: int, n: int, k: int) -> Traffic:
    """16-bit operands and result."""
    return Traffic(read_bytes=2 * (m * k + k * n), written_bytes=2 * m * n, flops=2 * m * n * k)


def rmsnorm_linear(m: int, n: int, k: int) -> Traffic:
    """x (m, k), the norm's weight and a float16 matrix (n, k) in, y (m, n) out."""
    return Traffic(read_bytes=2 * (m * k + k + n * k), written_bytes=2 * m * n, flops=2 * m * n * k + 4 * m * k)


def attention(batch: int, heads: int, sequence: int, head: int) -> Traffic:
    """Self-attention without a mask in float16: q, k and v in, y out, two products of S × S × D a head."""
    elements = batch * heads * sequence * head
    return Traffic(read_bytes=6 * elements, written_bytes=2 * elements, flops=4 * elements * sequence)


def decode_step(hidden: int, intermediate: int, sequence: int) -> Traffic:
    """One token in float16: norm, query projection, attention over a cache, gate and up projections."""
    weights = hidden + hidden * hidden + 2 * hidden * intermediate
    cache = 2 * sequence * hidden
    return Traffic(
        read_bytes=2 * (hidden + weights + cache), written_bytes=2 * hidden,
        flops=2 * hidden * hidden + 4 * sequence * hidden + 4 * hidden * intermediate,
    )  # fmt: skip
