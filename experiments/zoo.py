"""Shapes with which public models call the operators, and odd sizes: launch rules must be good for all of them.

A model's sizes are those of `config.json` in its repository on huggingface.co. For each operator the zoo has every
width that a model uses, with numbers of rows from a single token to a long batch. The odd sizes are primes, neighbours
of powers of two, rows whose size is not a multiple of 16 bytes, and views whose rows begin at any address. Products
have the linear layers of the models; their odd sizes are also long and thin, or with rows between lines of 128 bytes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """The sizes of a public model.

    rotary: features of a head that are turned, 0 for none. experts: the width of one expert of a mixture of experts, 0
    if all layers are dense. ranks: widths of norms inside its attention, whose projections are then not those of its
    heads. qk_norm: every head of queries and keys has an RMSNorm before it is turned. row_norm: one RMSNorm takes all
    heads of the queries together, another those of keys.
    """

    source: str  # repository on huggingface.co
    norm: str  # "rmsnorm" or "layernorm"
    hidden: int
    ffn: int
    vocabulary: int  # 0 if it has none
    heads: int
    kv_heads: int
    head_dim: int
    rotary: int
    unit: str = "swiglu"  # the gated unit of its FFN; "" if it is not gated
    experts: int = 0
    ranks: tuple[int, ...] = ()
    qk_norm: bool = False
    row_norm: bool = False


MODELS = (
    Model("meta-llama/Llama-2-7b-hf", "rmsnorm", 4096, 11008, 32000, 32, 32, 128, 128),
    Model("meta-llama/Llama-2-13b-hf", "rmsnorm", 5120, 13824, 32000, 40, 40, 128, 128),
    Model("meta-llama/Llama-3.2-1B", "rmsnorm", 2048, 8192, 128256, 32, 8, 64, 64),
    Model("meta-llama/Llama-3.2-3B", "rmsnorm", 3072, 8192, 128256, 24, 8, 128, 128),
    Model("meta-llama/Llama-3.1-8B", "rmsnorm", 4096, 14336, 128256, 32, 8, 128, 128),
    Model("meta-llama/Llama-3.1-70B", "rmsnorm", 8192, 28672, 128256, 64, 8, 128, 128),
    Model("meta-llama/Llama-3.1-405B", "rmsnorm", 16384, 53248, 128256, 128, 8, 128, 128),
    Model("mistralai/Mistral-7B-v0.3", "rmsnorm", 4096, 14336, 32768, 32, 8, 128, 128),
    Model("mistralai/Mistral-Nemo-Base-2407", "rmsnorm", 5120, 14336, 131072, 32, 8, 128, 128),
    Model("mistralai/Mistral-Small-24B-Base-2501", "rmsnorm", 5120, 32768, 131072, 32, 8, 128, 128),
    Model("mistralai/Mistral-Large-Instruct-2407", "rmsnorm", 12288, 28672, 32768, 96, 8, 128, 128),
    Model("mistralai/Mixtral-8x22B-Instruct-v0.1", "rmsnorm", 6144, 16384, 32768, 48, 8, 128, 128),
    Model("Qwen/Qwen2.5-0.5B", "rmsnorm", 896, 4864, 151936, 14, 2, 64, 64),
    Model("Qwen/Qwen2.5-1.5B", "rmsnorm", 1536, 8960, 151936, 12, 2, 128, 128),
    Model("Qwen/Qwen2.5-3B", "rmsnorm", 2048, 11008, 151936, 16, 2, 128, 128),
    Model("Qwen/Qwen2.5-7B", "rmsnorm", 3584, 18944, 152064, 28, 4, 128, 128),
    Model("Qwen/Qwen2.5-14B", "rmsnorm", 5120, 13824, 152064, 40, 8, 128, 128),
    Model("Qwen/Qwen2.5-32B", "rmsnorm", 5120, 27648, 152064, 40, 8, 128, 128),
    Model("Qwen/Qwen2.5-72B", "rmsnorm", 8192, 29568, 152064, 64, 8, 128, 128),
    Model("Qwen/Qwen3-0.6B", "rmsnorm", 1024, 3072, 151936, 16, 8, 128, 128, qk_norm=True),
    Model("Qwen/Qwen3-4B", "rmsnorm", 2560, 9728, 151936, 32, 8, 128, 128, qk_norm=True),
    Model("Qwen/Qwen3-8B", "rmsnorm", 4096, 12288, 151936, 32, 8, 128, 128, qk_norm=True),
    Model("Qwen/Qwen3-32B", "rmsnorm", 5120, 25600, 151936, 64, 8, 128, 128, qk_norm=True),
    Model("Qwen/Qwen3-30B-A3B", "rmsnorm", 2048, 6144, 151936, 32, 4, 128, 128, experts=768, qk_norm=True),
    Model("Qwen/Qwen3-235B-A22B", "rmsnorm", 4096, 12288, 151936, 64, 4, 128, 128, experts=1536, qk_norm=True),
    Model("google/gemma-2-2b", "rmsnorm", 2304, 9216, 256000, 8, 4, 256, 256, "geglu-tanh"),
    Model("google/gemma-2-9b", "rmsnorm", 3584, 14336, 256000, 16, 8, 256, 256, "geglu-tanh"),
    Model("google/gemma-2-27b", "rmsnorm", 4608, 36864, 256000, 32, 16, 128, 128, "geglu-tanh"),
    Model("google/gemma-3-1b-pt", "rmsnorm", 1152, 6912, 262144, 4, 1, 256, 256, "geglu-tanh", qk_norm=True),
    Model("microsoft/Phi-3-mini-4k-instruct", "rmsnorm", 3072, 8192, 32064, 32, 32, 96, 96),
    Model("microsoft/Phi-3-medium-4k-instruct", "rmsnorm", 5120, 17920, 32064, 40, 10, 128, 128),
    Model("microsoft/phi-4", "rmsnorm", 5120, 17920, 100352, 40, 10, 128, 128),
    Model("microsoft/phi-2", "layernorm", 2560, 10240, 51200, 32, 32, 80, 32, ""),
    Model("deepseek-ai/DeepSeek-V2-Lite", "rmsnorm", 2048, 10944, 102400, 16, 16, 64, 64, experts=1408, ranks=(512,)),
    Model("deepseek-ai/DeepSeek-V3", "rmsnorm", 7168, 18432, 129280, 128, 1, 64, 64, experts=2048, ranks=(1536, 512)),
    Model("openai-community/gpt2", "layernorm", 768, 3072, 50257, 12, 12, 64, 0, ""),
    Model("openai-community/gpt2-xl", "layernorm", 1600, 6400, 50257, 25, 25, 64, 0, ""),
    Model("openai/gpt-oss-20b", "rmsnorm", 2880, 2880, 201088, 64, 8, 64, 64),
    Model("openai/whisper-large-v3", "layernorm", 1280, 5120, 51866, 20, 20, 64, 0, ""),
    Model("tiiuae/falcon-7b", "layernorm", 4544, 18176, 65024, 71, 1, 64, 64, ""),
    Model("tiiuae/falcon-40b", "layernorm", 8192, 32768, 65024, 128, 8, 64, 64, ""),
    Model("bigscience/bloom", "layernorm", 14336, 57344, 250880, 112, 112, 128, 0, ""),
    Model("facebook/opt-6.7b", "layernorm", 4096, 16384, 50272, 32, 32, 128, 0, ""),
    Model("EleutherAI/gpt-neox-20b", "layernorm", 6144, 24576, 50432, 64, 64, 96, 24, ""),
    Model("EleutherAI/pythia-12b", "layernorm", 5120, 20480, 50688, 40, 40, 128, 32, ""),
    Model("google-bert/bert-base-uncased", "layernorm", 768, 3072, 30522, 12, 12, 64, 0, ""),
    Model("google-bert/bert-large-uncased", "layernorm", 1024, 4096, 30522, 16, 16, 64, 0, ""),
    Model("FacebookAI/roberta-base", "layernorm", 768, 3072, 50265, 12, 12, 64, 0, ""),
    Model("FacebookAI/xlm-roberta-large", "layernorm", 1024, 4096, 250002, 16, 16, 64, 0, ""),
    Model("google/siglip-so400m-patch14-384", "layernorm", 1152, 4304, 0, 16, 16, 72, 0, ""),
    Model("CohereForAI/c4ai-command-r-v01", "layernorm", 8192, 22528, 256000, 64, 64, 128, 128),
    Model("CohereForAI/c4ai-command-r-plus", "layernorm", 12288, 33792, 256000, 96, 8, 128, 128),
    Model("stabilityai/stablelm-2-1_6b", "layernorm", 2048, 5632, 100352, 32, 32, 64, 16),
    Model("bigcode/starcoder2-15b", "layernorm", 6144, 24576, 49152, 48, 4, 128, 128, ""),
    Model("databricks/dbrx-base", "layernorm", 6144, 10752, 100352, 48, 8, 128, 128, experts=10752),
    Model("allenai/OLMo-2-1124-7B", "rmsnorm", 4096, 11008, 100352, 32, 32, 128, 128, row_norm=True),
    Model("01-ai/Yi-34B", "rmsnorm", 7168, 20480, 64000, 56, 8, 128, 128),
    Model("ibm-granite/granite-3.0-8b-base", "rmsnorm", 4096, 12800, 49155, 32, 8, 128, 128),
    Model("HuggingFaceTB/SmolLM2-135M", "rmsnorm", 576, 1536, 49152, 9, 3, 64, 64),
    Model("HuggingFaceTB/SmolLM2-360M", "rmsnorm", 960, 2560, 49152, 15, 5, 64, 64),
    Model("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "rmsnorm", 2048, 5632, 32000, 32, 4, 64, 64),
    Model("THUDM/glm-4-9b", "rmsnorm", 4096, 13696, 151552, 32, 2, 128, 64),
)

ROWS = (1, 16, 128, 1024, 4096, 16384, 65536)
DTYPES = ("bfloat16", "float16", "float32")
ODD_WIDTHS = (1, 7, 33, 127, 129, 257, 1000, 1023, 1025, 2049, 3001, 4095, 4097, 5003, 8191, 8193, 10007, 16383, 16385)
WIDE_ODD_WIDTHS = (32767, 32769, 40961, 65535, 65537, 100003, 131071, 200003, 262143)
# (query heads, key heads, features of a head): features are even, for they are turned in pairs.
ODD_HEADS = (
    (1, 1, 2), (3, 1, 34), (5, 5, 66), (6, 2, 250), (7, 1, 80), (9, 3, 96), (11, 11, 130), (14, 2, 62), (71, 1, 72),
)  # fmt: skip
SEQUENCES = ((1, 1), (64, 1), (1, 128), (1, 2048), (4, 4096), (1, 32768), (3, 1021))  # (how many, positions of each)
MOST_BYTES = 2**31  # of one tensor; of a product, of its three together
# In float32 cuBLAS would be given more to do: PyTorch keeps all digits unless it is asked for tensor float 32, which is
# what the lab's product computes.
PRODUCT_DTYPES = ("bfloat16", "float16")
PRODUCT_ROWS = (1, 16, 80, 128, 784, 1000, 1024, 3001, 4096, 16384)  # tokens; some are no multiple of a tile
# (M, N) and K: rows of K elements begin at lines of 128 bytes (4096), between them (1000, 3000, 8200), or at no
# multiple of 16 bytes, which TMA cannot read.
ODD_RESULTS = (
    (1, 5003), (7, 4097), (80, 3001), (129, 1023), (784, 1504), (1000, 1000), (3001, 257), (4097, 8193), (8191, 127),
    (65537, 64), (33, 65536), (96, 96),
)  # fmt: skip
ODD_DEPTHS = (127, 1000, 1001, 3000, 4096, 4097, 8200, 32769)
MOST_FLOPS = 2e13  # of a product: 30 ms on an H100
# The rows of the first input in memory: without gaps, with a gap of one element after each, or beginning one element
# past an aligned address.
LAYOUTS = ("contiguous", "padded", "offset")


@dataclass(frozen=True, slots=True)
class Visit:
    """A call of an operator: its shape as `lab tune` takes it, dtype, strides of rows, and the models that make it."""

    operator: str
    shape: Shape
    dtype: str
    layout: str
    callers: tuple[str, ...]  # repositories of models, or other callers; empty for an odd size

    @property
    def name(self) -> str:
        kind = "" if self.layout == LAYOUTS[0] else f" {self.layout}"
        return f"{self.operator} {'x'.join(map(str, self.shape))} {self.dtype}{kind}"


def norm_widths(norm: str) -> dict[int, tuple[str, ...]]:
    """The widths of norms of the kind `norm`, each with the models that have it."""
    return _by_width((width, m) for m in MODELS if m.norm == norm for width in (m.hidden, *m.ranks))


def ffn_widths(unit: str) -> dict[int, tuple[str, ...]]:
    """The widths of gated units of the kind `unit`, each with the models that have it."""
    return _by_width((width, m) for m in MODELS if m.unit == unit for width in (m.ffn, m.experts) if width)


def vocabularies() -> dict[int, tuple[str, ...]]:
    """The sizes of vocabularies, over which softmax is computed to sample a token."""
    return _by_width((m.vocabulary, m) for m in MODELS if m.vocabulary)


def head_sizes() -> dict[Shape, tuple[str, ...]]:
    """(query heads, key heads, turned features), each with the models that have it."""
    return _by_width(((m.heads, m.kv_heads, m.head_dim), m) for m in MODELS if m.rotary == m.head_dim)


def normed_head_sizes() -> dict[Shape, tuple[str, ...]]:
    """As `head_sizes`, of the models that normalise every head before they turn it."""
    return _by_width(((m.heads, m.kv_heads, m.head_dim), m) for m in MODELS if m.qk_norm)


def normed_row_sizes() -> dict[Shape, tuple[str, ...]]:
    """(heads, turned features) of rows of heads that are normalised together before they are turned, each with the
    models that have it."""
    return _by_width(((heads, m.head_dim), m) for m in MODELS if m.row_norm for heads in {m.heads, m.kv_heads})


def linear_sizes() -> dict[Shape, tuple[str, ...]]:
    """(outputs, inputs) of linear layers, each with the models that have it: queries, keys, values, these three in one,
    the output of attention, both directions of the FFN or of an expert, and the vocabulary."""
    return _by_width((size, m) for m in MODELS for size in dict.fromkeys(_linear_sizes(m)))


def product_bytes(shape: Shape, itemsize: int) -> int:
    """Of both operands and the result of the product (M, N, K)."""
    M, N, K = shape
    return (M * K + K * N + M * N) * itemsize


def visits(operator: str) -> Iterator[Visit]:
    """All calls of `operator` in the zoo. KeyError if there are none."""
    yield from _VISITS[operator](operator)


def operators() -> tuple[str, ...]:
    return tuple(_VISITS)


def _norms(operator: str) -> Iterator[Visit]:
    kinds = ("layernorm",) if operator == "layernorm" else ("rmsnorm",)
    for kind in kinds:
        yield from _rows(operator, norm_widths(kind), ODD_WIDTHS)


def _softmaxes(operator: str) -> Iterator[Visit]:
    lengths = {keys: (f"attention over {keys} keys",) for keys in (128, 512, 1024, 2048, 4096, 8192, 16384, 32768)}
    yield from _rows(operator, lengths | vocabularies(), (*ODD_WIDTHS, *WIDE_ODD_WIDTHS))


def _units(operator: str) -> Iterator[Visit]:
    widths = ffn_widths(operator) or ffn_widths("geglu-tanh")
    yield from _rows(operator, widths, ODD_WIDTHS)


def _rows(operator: str, widths: dict[int, tuple[str, ...]], odd: tuple[int, ...]) -> Iterator[Visit]:
    for dtype in DTYPES:
        itemsize = 4 if dtype == "float32" else 2
        for rows in ROWS:
            for width, callers in sorted(widths.items()):
                if rows * width * itemsize <= MOST_BYTES:
                    yield Visit(operator, (rows, width), dtype, LAYOUTS[0], callers)
            for width in odd:
                if rows * width * itemsize <= MOST_BYTES:
                    yield Visit(operator, (rows, width), dtype, LAYOUTS[0], ())
        for layout in LAYOUTS[1:]:
            for width in (1024, 4096, 5120, 32000):
                yield Visit(operator, (4096, width), dtype, layout, ())


def _heads(operator: str) -> Iterator[Visit]:
    for dtype, batch, positions, (heads, kv_heads, features), callers in _sequences(head_sizes()):
        yield Visit(operator, (batch, heads, kv_heads, positions, features), dtype, LAYOUTS[0], callers)


def _normed_heads(operator: str) -> Iterator[Visit]:
    sizes = dict.fromkeys(ODD_HEADS, ()) | normed_head_sizes()
    for dtype, batch, positions, (heads, kv_heads, features), callers in _sequences(sizes):
        yield Visit(operator, (batch, heads, kv_heads, positions, features), dtype, LAYOUTS[0], callers)


def _normed_rows(operator: str) -> Iterator[Visit]:
    sizes = dict.fromkeys(((heads, features) for heads, _, features in ODD_HEADS), ()) | normed_row_sizes()
    for dtype, batch, positions, (heads, features), callers in _sequences(sizes):
        yield Visit(operator, (batch, positions, heads, features), dtype, LAYOUTS[0], callers)


def _linear_sizes(m: Model) -> Iterator[Shape]:
    if not m.ranks:
        queries, keys = m.heads * m.head_dim, m.kv_heads * m.head_dim
        yield from ((queries, m.hidden), (keys, m.hidden), (queries + 2 * keys, m.hidden), (m.hidden, queries))
    for width in (m.ffn, m.experts):
        if width:
            yield from ((width, m.hidden), (m.hidden, width))
    if m.vocabulary:
        yield m.vocabulary, m.hidden


def _products(operator: str) -> Iterator[Visit]:
    sizes: dict[Shape, tuple[str, ...]] = {(M, N, K): () for M, N in ODD_RESULTS for K in ODD_DEPTHS}
    sizes |= {(M, *size): callers for M in PRODUCT_ROWS for size, callers in sorted(linear_sizes().items())}
    for dtype in PRODUCT_DTYPES:
        for shape, callers in sizes.items():
            if product_bytes(shape, 2) <= MOST_BYTES and 2 * math.prod(shape) <= MOST_FLOPS:
                yield Visit(operator, shape, dtype, LAYOUTS[0], callers)


def _sequences(
    sizes: dict[Shape, tuple[str, ...]],
) -> Iterator[tuple[str, int, int, Shape, tuple[str, ...]]]:
    """(dtype, batch, positions, size, its callers) of every call."""
    for dtype in DTYPES:
        for batch, positions in SEQUENCES:
            for size, callers in sorted(sizes.items()):
                yield dtype, batch, positions, size, callers


def _by_width(pairs: Iterator[tuple]) -> dict:  # type: ignore[type-arg]
    widths: dict = {}  # type: ignore[type-arg]
    for width, model in pairs:
        widths[width] = (*widths.get(width, ()), model.source)
    return widths


_VISITS = {
    **dict.fromkeys(("rmsnorm", "layernorm", "add-rmsnorm", "rmsnorm-fp8", "fp8-row"), _norms),
    "softmax": _softmaxes,
    **dict.fromkeys(("swiglu", "geglu-tanh"), _units),
    "rope-qk": _heads,
    "qk-norm-rope": _normed_heads,
    "rmsnorm-rope": _normed_rows,
    "matmul": _products,
}
