import math
import lab, torch
from torch.nn.functional import gelu

exp = lab.experiment("gelu", shapes=[(64, 1024), (128, 4096), (1024, 4096)], reference=lambda x: gelu(x.double()),
                     tolerance=16)  # roundings: on a CPU PyTorch's own gelu errs by up to 10, at inputs near -3.5

@exp.profile(baseline=True)
def composed(x):
    return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))

exp.profile("fused", gelu)
exp.profile("compiled", load=lambda: torch.compile(composed))
exp.claim("fused", faster_than="composed", by=1.5)
exp.claim("compiled", faster_than="composed", by=1.5)
