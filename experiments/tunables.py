"""Every operator that `lab tune` can search, by name. A kernel whose launch cannot be chosen is not named here."""

from experiments.fp8_quantization import RMSNORM as RMSNORM_FP8
from experiments.memory_primitives import ADD, COPY, REDUCTION, SCALE
from experiments.normalization_fusion import ADD_RMSNORM, LAYERNORM, RMSNORM
from experiments.softmax_fusion import SOFTMAX
from experiments.swiglu_fusion import GEGLU_TANH, SWIGLU
from lab import Tunable
from lab.kernels.add import ADD_TUNING, add
from lab.kernels.add_rmsnorm import ADD_RMSNORM_TUNING, add_rmsnorm
from lab.kernels.copy import COPY_TUNING, copy
from lab.kernels.glu import GEGLU_TANH_TUNING, SWIGLU_TUNING, geglu_tanh, swiglu
from lab.kernels.layernorm import LAYERNORM_TUNING, layernorm
from lab.kernels.reduction import REDUCTION_TUNING, reduction
from lab.kernels.rmsnorm import RMSNORM_TUNING, rmsnorm
from lab.kernels.rmsnorm_fp8 import RMSNORM_FP8_TUNING, rmsnorm_fp8
from lab.kernels.scale import SCALE_TUNING, scale
from lab.kernels.softmax import SOFTMAX_TUNING, softmax

TUNABLES = (
    Tunable(operator=RMSNORM, entry=rmsnorm, tuning=RMSNORM_TUNING),
    Tunable(operator=LAYERNORM, entry=layernorm, tuning=LAYERNORM_TUNING),
    Tunable(operator=ADD_RMSNORM, entry=add_rmsnorm, tuning=ADD_RMSNORM_TUNING),
    Tunable(operator=SOFTMAX, entry=softmax, tuning=SOFTMAX_TUNING),
    Tunable(operator=SWIGLU, entry=swiglu, tuning=SWIGLU_TUNING),
    Tunable(operator=GEGLU_TANH, entry=geglu_tanh, tuning=GEGLU_TANH_TUNING),
    Tunable(operator=RMSNORM_FP8, entry=rmsnorm_fp8, tuning=RMSNORM_FP8_TUNING),
    Tunable(operator=COPY, entry=copy, tuning=COPY_TUNING),
    Tunable(operator=SCALE, entry=scale, tuning=SCALE_TUNING),
    Tunable(operator=ADD, entry=add, tuning=ADD_TUNING),
    Tunable(operator=REDUCTION, entry=reduction, tuning=REDUCTION_TUNING),
)
