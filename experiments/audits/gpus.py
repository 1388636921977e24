"""What the audited GPUs can do at most, by their makers: dense matrix rates, never sparse ones."""

from lab.definition.publication import Limits

TERA, GIGA, MIBI = 1e12, 1e9, 2**20

A10G = Limits(
    gpu="A10G", bytes_per_second=600 * GIGA, flops_per_second={"float16": 70 * TERA, "bfloat16": 70 * TERA},
    l2_bytes=6 * MIBI, source="NVIDIA A10G datasheet for AWS G5",
)  # fmt: skip
A100 = Limits(
    gpu="A100 SXM4 80 GB", bytes_per_second=2039 * GIGA,
    flops_per_second={"float16": 312 * TERA, "bfloat16": 312 * TERA}, l2_bytes=40 * MIBI,
    source="NVIDIA A100 datasheet",
)  # fmt: skip
H200 = Limits(
    gpu="H200 SXM", bytes_per_second=4800 * GIGA,
    flops_per_second={"float16": 989.5 * TERA, "bfloat16": 989.5 * TERA}, l2_bytes=50 * MIBI,
    source="NVIDIA H200 datasheet, which prints twice these matrix rates, with sparsity",
)  # fmt: skip
RTX_4090 = Limits(
    gpu="RTX 4090", bytes_per_second=1008 * GIGA, flops_per_second={"float16": 165.2 * TERA}, l2_bytes=72 * MIBI,
    source="NVIDIA Ada GPU architecture whitepaper; float16 with float32 accumulation",
)  # fmt: skip
RTX_5090 = Limits(
    gpu="RTX 5090", bytes_per_second=1792 * GIGA, flops_per_second={"float16": 209.5 * TERA}, l2_bytes=96 * MIBI,
    source="NVIDIA RTX Blackwell GPU architecture whitepaper; float16 with float32 accumulation",
)  # fmt: skip
