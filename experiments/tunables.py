"""Every operator that `lab tune` can search, by name. Kernels without a choice of configurations are not listed."""

from functools import partial

from experiments.fp8_quantization import BLOCK, ROW, TENSOR
from experiments.fp8_quantization import RMSNORM as RMSNORM_FP8
from experiments.memory_primitives import ADD, COPY, REDUCTION, SCALE
from experiments.normalization_fusion import ADD_RMSNORM, LAYERNORM, RMSNORM
from experiments.rmsnorm_rope_fusion import QK_NORM_ROPE, RMSNORM_ROPE
from experiments.rope_fusion import ROPE, ROPE_QK
from experiments.softmax_fusion import SOFTMAX
from experiments.swiglu_fusion import GEGLU_ERF, GEGLU_TANH, SWIGLU
from lab import Tunable
from lab.kernels.add import ADD_TUNING, add
from lab.kernels.add_rmsnorm import ADD_RMSNORM_TUNING, add_rmsnorm
from lab.kernels.copy import COPY_TUNING, copy
from lab.kernels.fp8 import quantize_fp8, quantize_fp8_tuning
from lab.kernels.glu import GEGLU_ERF_TUNING, GEGLU_TANH_TUNING, SWIGLU_TUNING, geglu_erf, geglu_tanh, swiglu
from lab.kernels.layernorm import LAYERNORM_TUNING, layernorm
from lab.kernels.reduction import REDUCTION_TUNING, reduction
from lab.kernels.rmsnorm import RMSNORM_TUNING, rmsnorm
from lab.kernels.rmsnorm_fp8 import RMSNORM_FP8_TUNING, rmsnorm_fp8
from lab.kernels.rmsnorm_rope import QK_NORM_ROPE_TUNING, RMSNORM_ROPE_TUNING, qk_norm_rope, rmsnorm_rope
from lab.kernels.rope import ROPE_QK_TUNING, ROPE_TUNING, rope, rope_qk
from lab.kernels.scale import SCALE_TUNING, scale
from lab.kernels.softmax import SOFTMAX_TUNING, softmax

TUNABLES = (
    Tunable(operator=RMSNORM, entry=rmsnorm, tuning=RMSNORM_TUNING),
    Tunable(operator=LAYERNORM, entry=layernorm, tuning=LAYERNORM_TUNING),
    Tunable(operator=ADD_RMSNORM, entry=add_rmsnorm, tuning=ADD_RMSNORM_TUNING),
    Tunable(operator=SOFTMAX, entry=softmax, tuning=SOFTMAX_TUNING),
    Tunable(operator=SWIGLU, entry=swiglu, tuning=SWIGLU_TUNING),
    Tunable(operator=GEGLU_ERF, entry=geglu_erf, tuning=GEGLU_ERF_TUNING),
    Tunable(operator=GEGLU_TANH, entry=geglu_tanh, tuning=GEGLU_TANH_TUNING),
    Tunable(operator=RMSNORM_FP8, entry=rmsnorm_fp8, tuning=RMSNORM_FP8_TUNING),
    *(
        Tunable(
            operator=operator,
            entry=partial(quantize_fp8, granularity=granularity),
            tuning=quantize_fp8_tuning(granularity),
        )
        for operator, granularity in ((ROW, "row"), (BLOCK, "group"), (TENSOR, "tensor"))
    ),
    Tunable(operator=ROPE, entry=rope, tuning=ROPE_TUNING),
    Tunable(operator=ROPE_QK, entry=rope_qk, tuning=ROPE_QK_TUNING),
    Tunable(operator=RMSNORM_ROPE, entry=rmsnorm_rope, tuning=RMSNORM_ROPE_TUNING),
    Tunable(operator=QK_NORM_ROPE, entry=qk_norm_rope, tuning=QK_NORM_ROPE_TUNING),
    Tunable(operator=COPY, entry=copy, tuning=COPY_TUNING),
    Tunable(operator=SCALE, entry=scale, tuning=SCALE_TUNING),
    Tunable(operator=ADD, entry=add, tuning=ADD_TUNING),
    Tunable(operator=REDUCTION, entry=reduction, tuning=REDUCTION_TUNING),
)
