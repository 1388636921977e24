"""Every experiment of the lab, in the order of the site. A file that is not named here is neither run nor published."""

from experiments.cheating_kernels import CHEATING_KERNELS
from experiments.configuration_search import CONFIGURATION_SEARCH
from experiments.cpu_fused_calls import CPU_FUSED_CALLS
from experiments.decode_attention import DECODE_ATTENTION
from experiments.flash_attention import FLASH_ATTENTION
from experiments.fp8_gemm import FP8_GEMM
from experiments.fp8_quantization import FP8_QUANTIZATION
from experiments.gated_mlp import GATED_MLP_FUSION
from experiments.gpu_ceilings import GPU_CEILINGS
from experiments.headline_attention import HEADLINE_ATTENTION
from experiments.headline_linear import HEADLINE_LINEAR
from experiments.headline_tables import HEADLINE_TABLES
from experiments.matmul_tiling import MATMUL_TILING
from experiments.measurement_validity import MEASUREMENT_VALIDITY
from experiments.memory_primitives import MEMORY_PRIMITIVES
from experiments.normalization_fusion import NORMALIZATION_FUSION
from experiments.profiler_validation import PROFILER_VALIDATION
from experiments.rmsnorm_linear import RMSNORM_LINEAR_FUSION
from experiments.rmsnorm_rope_fusion import RMSNORM_ROPE_FUSION
from experiments.rope_fusion import ROPE_FUSION
from experiments.softmax_fusion import SOFTMAX_FUSION
from experiments.swiglu_fusion import SWIGLU_FUSION
from experiments.triton_vs_cuda import TRITON_VS_CUDA

EXPERIMENTS = (
    NORMALIZATION_FUSION,
    SOFTMAX_FUSION,
    ROPE_FUSION,
    RMSNORM_ROPE_FUSION,
    SWIGLU_FUSION,
    FP8_QUANTIZATION,
    MATMUL_TILING,
    GATED_MLP_FUSION,
    RMSNORM_LINEAR_FUSION,
    FP8_GEMM,
    FLASH_ATTENTION,
    DECODE_ATTENTION,
    MEMORY_PRIMITIVES,
    HEADLINE_TABLES,
    HEADLINE_LINEAR,
    HEADLINE_ATTENTION,
    TRITON_VS_CUDA,
    CONFIGURATION_SEARCH,
    CPU_FUSED_CALLS,
    GPU_CEILINGS,
    PROFILER_VALIDATION,
    MEASUREMENT_VALIDITY,
    CHEATING_KERNELS,
)
