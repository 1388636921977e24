"""What readers call a thing, and what the search calls it: of what is typed and of what is found alike."""

import json
from collections.abc import Mapping

# By what the search calls it, in lower case and with a space where a hyphen or an underscore may stand. A phrase that
# stands for itself keeps a shorter one within it from being replaced: half the warps are not fp16.
ALSO_CALLED: Mapping[str, tuple[str, ...]] = {
    "bf16": ("bfloat16", "bfloat 16", "bf 16"),
    "fp16": ("float16", "float 16", "fp 16", "half", "half precision"),
    "fp32": ("float32", "float 32", "fp 32", "float", "single precision"),
    "fp8": ("float8", "float 8", "fp 8", "float8 e4m3fn", "e4m3", "e4m3fn"),
    "matmul": (
        "matmuls", "gemm", "gemms", "mat mul", "product", "products", "matrix product", "matrix products",
        "matrix multiply", "matrix multiplication", "matrix multiplications",
    ),
    "rmsnorm": ("rms norm", "rms norms", "rms normalization", "rms normalisation", "rmsnorms"),
    "layernorm": ("layer norm", "layer norms", "layer normalization", "layer normalisation", "layernorms"),
    "attention": ("sdpa", "scaled dot product attention"),
    "swiglu": ("silu and mul", "silu mul"),
    "add": ("fused add",),
    "grouped": ("gqa", "grouped query"),
    "flash": ("flashattention",),
    "flash fa3": ("flashattention 3", "flash attention 3", "flashattention3", "flash attn 3"),
    "flash fa4": ("flashattention 4", "flash attention 4", "flashattention4", "flash attn 4"),
    "decode": ("decoding",),
    "rope": ("rotary", "rotary embedding", "rotary embeddings", "rotary position embedding"),
    "quantis": ("quantise", "quantised", "quantize", "quantized", "quantization", "quantisation"),
    "graph": ("graphs",),
    "eager": ("eagerly",),
    "speedup": ("speed up",),
    "half a": ("half a",), "half of": ("half of",), "half the": ("half the",),
}  # fmt: skip
# Words of a question that say nothing of what is looked for.
EMPTY = (
    "a an as at best by call called cuda fast fastest for gpu in is k kernel m n nvidia of on shape speedup than the "
    "to versus vs what which winner with x"
)


def finder_words() -> str:
    """As search.js reads them: longer phrases first, since a shorter one may be a part of one."""
    pairs = [(phrase, name) for name, phrases in ALSO_CALLED.items() for phrase in phrases]
    alike = dict(sorted(pairs, key=lambda pair: -len(pair[0])))
    return json.dumps({"alike": alike, "empty": EMPTY.split()}, separators=(",", ":"))
