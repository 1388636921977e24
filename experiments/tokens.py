"""What a call of a whole model does in tokens: a prompt is (sequences, tokens), a step makes one token a sequence."""

from lab import Tokens

PROMPTS = ("qwen-prefill", "qwen-prefill-ways")
STEPS = ("qwen-decode", "qwen-decode-ways", "qwen-decode-compiled", "qwen-decode-compiled-at-once")
TOKENS = (
    *(Tokens(operator=name, axes=(0, 1)) for name in PROMPTS),
    *(Tokens(operator=name, axes=(0,)) for name in STEPS),
)
