"""Every experiment of the lab, in the order of the site. A new file is not run or published until named here."""

from experiments.cheating_kernels import CHEATING_KERNELS
from experiments.configuration_search import CONFIGURATION_SEARCH
from experiments.gpu_ceilings import GPU_CEILINGS
from experiments.measurement_validity import MEASUREMENT_VALIDITY
from experiments.normalization_fusion import NORMALIZATION_FUSION
from experiments.profiler_validation import PROFILER_VALIDATION

EXPERIMENTS = (
    NORMALIZATION_FUSION, CONFIGURATION_SEARCH, GPU_CEILINGS, PROFILER_VALIDATION, MEASUREMENT_VALIDITY,
    CHEATING_KERNELS,
)  # fmt: skip
