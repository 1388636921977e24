"""Every operator that `lab tune` can search, by name. A kernel whose launch cannot be chosen is not named here."""

from experiments.normalization_fusion import LAYERNORM, RMSNORM
from lab import Tunable
from lab.kernels.layernorm import LAYERNORM_TUNING, layernorm
from lab.kernels.rmsnorm import RMSNORM_TUNING, rmsnorm

TUNABLES = (
    Tunable(operator=RMSNORM, entry=rmsnorm, tuning=RMSNORM_TUNING),
    Tunable(operator=LAYERNORM, entry=layernorm, tuning=LAYERNORM_TUNING),
)
