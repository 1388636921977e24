"""Published results of public projects, as figures: what the lab's guard is asked about on the methods page.

Copied are the figures that a project prints, with the file and commit that prints them; computed, by an operator's
traffic model, is the least work of each row. A project is here because its authors published enough to be checked.
"""

from experiments.audits.cuda_kernel_lab import CUDA_KERNEL_LAB
from experiments.audits.cuda_kernels import CUDA_KERNELS
from experiments.audits.diy_flash_attention import DIY_FLASH_ATTENTION
from experiments.audits.triton_fused_ops import TRITON_FUSED_OPS

AUDITS = (CUDA_KERNEL_LAB, CUDA_KERNELS, DIY_FLASH_ATTENTION, TRITON_FUSED_OPS)
