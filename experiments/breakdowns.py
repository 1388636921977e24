"""What the kernels should save in Qwen2.5-7B: which cases are parts of a prompt and of a token, and how often."""

from lab import Breakdown, BreakdownRow

LAYERS = 28
NORMS = 2 * LAYERS + 1  # two in each layer, and one after the last


def _part(name: str) -> str:
    return f"qwen-{name}-1x2048-bfloat16"


PROMPT = Breakdown(
    experiment="qwen-prefill", case="qwen-prefill-ways-1x2048-bfloat16", baseline="sdpa", together="patched",
    rows=(
        BreakdownRow(
            title="RMSNorm", case=_part("norm"), calls=NORMS, profile="patched-rmsnorm", alone="patched-rmsnorm"
        ),
        BreakdownRow(title="SwiGLU", case=_part("gate"), calls=LAYERS, profile="patched-glu", alone="patched-glu"),
        BreakdownRow(
            title="RoPE", case=_part("rope"), calls=LAYERS, profile="patched-rope", alone="patched-rope", added=True
        ),
        BreakdownRow(
            title="Attention", case=_part("attention"), calls=LAYERS, profile="patched-attention",
            alone="patched-attention", added=True,
        ),
        BreakdownRow(
            title="RMSNorm + Linear, with RMSNorm and SwiGLU inside", case=_part("joined-layer"), calls=LAYERS,
            profile="patched-rmsnorm-linear", alone="patched-rmsnorm-linear", added=True,
        ),
        BreakdownRow(title="A whole layer", case=_part("layer"), calls=LAYERS, profile="patched", alone="patched"),
    ),
)  # fmt: skip
TOKEN = Breakdown(
    experiment="decode-step", case="qwen-decode-1x1024-bfloat16", baseline="cuda-graph", together="patched-graph",
    whole=True,
    rows=(
        BreakdownRow(
            title="A layer", case="qwen-decode-layer-1x1024-bfloat16", calls=LAYERS, profile="patched-graph", added=True
        ),
        BreakdownRow(
            title="Mask, angles, last norm and logits", case="qwen-decode-rest-1x1024-bfloat16", calls=1,
            profile="patched-graph", added=True,
        ),
    ),
)  # fmt: skip
BREAKDOWNS = (PROMPT, TOKEN)
