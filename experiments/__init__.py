"""Every experiment of the lab, in the order of the site. A new file is not run or published until named here."""

from experiments.normalization_fusion import NORMALIZATION_FUSION

EXPERIMENTS = (NORMALIZATION_FUSION,)
