"""Published results of public projects, as figures. The methods page shows what the lab's guard finds in them.

The figures are copied from the project, with the file and commit that print them. The least work of each row is
computed with the operator's traffic model. A project is here because its authors published enough to be checked.
"""

from experiments.audits.cuda_kernel_lab import CUDA_KERNEL_LAB
from experiments.audits.cuda_kernels import CUDA_KERNELS
from experiments.audits.diy_flash_attention import DIY_FLASH_ATTENTION
from experiments.audits.triton_fused_ops import TRITON_FUSED_OPS

AUDITS = (CUDA_KERNEL_LAB, CUDA_KERNELS, DIY_FLASH_ATTENTION, TRITON_FUSED_OPS)
