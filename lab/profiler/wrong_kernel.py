"""Are the captured kernels those of the profile that was timed? Pure.

An honest profile passes the checks with any names of kernels. A launch is compared with what Triton compiled by its
registers and threads, which ncu reports exactly. Shared memory is not compared, because ncu adds what the driver
reserves, and that differs between GPUs.
"""

import math
import re
from collections.abc import Mapping, Sequence

from lab.definition.experiment import one_of
from lab.definition.plan import PlannedCase, PlannedExperiment, PlannedProfile
from lab.evidence.record import Compiled, Kernel

THREADS_PER_WARP = 32
FEWEST_REGISTERS = 16  # that a GPU gives a thread: ncu never reports fewer, even if the compiler needs fewer
Compilations = Mapping[tuple[str, str], Sequence[Compiled]]  # by case and profile: what Triton compiled, in any sweep


def wrong_kernel(
    experiment: PlannedExperiment,
    case: PlannedCase,
    profile: PlannedProfile,
    kernels: Sequence[Kernel],
    compiled: Compilations,
) -> str:
    """Why these kernels, captured in one call of the profile, are not its own; nothing where they may be."""
    made = compiled.get((case.name, profile.name), ())
    if own := profile.kernels.get(case.op, ""):
        return _missing(own, kernels) or _otherwise_compiled(own, kernels, made)
    return _of_another(experiment, case, kernels, compiled, made)


def _missing(own: str, kernels: Sequence[Kernel]) -> str:
    seen = sorted({kernel.name for kernel in kernels})
    return f"{own} is not among the captured {seen}" if set(one_of(own)).isdisjoint(seen) else ""


def _otherwise_compiled(own: str, kernels: Sequence[Kernel], made: Sequence[Compiled]) -> str:
    """The name of the profile's kernel, on code that was not timed: another configuration, or another kernel."""
    timed = {
        (max(FEWEST_REGISTERS, each.registers_per_thread), each.warps * THREADS_PER_WARP)
        for each in made
        if each.name in one_of(own)
    }
    seen = {(kernel.registers_per_thread, _threads(kernel)) for kernel in kernels if kernel.name in one_of(own)}
    if not timed or timed & seen or any(None in launch for launch in seen):
        return ""
    name = next(kernel.name for kernel in kernels if kernel.name in one_of(own))
    return f"{name} was timed with {_in_words(timed)}, and captured with {_in_words(seen)}"


def _of_another(
    experiment: PlannedExperiment,
    case: PlannedCase,
    kernels: Sequence[Kernel],
    compiled: Compilations,
    made: Sequence[Compiled],
) -> str:
    """Why a profile that names no kernel is refused: it launches exactly the code of a profile that names one."""
    seen = {kernel.name for kernel in kernels}
    code = {(each.name, each.code_sha256) for each in made if each.name in seen and each.code_sha256}
    for rival in experiment.profiles_of(case):
        own = one_of(rival.kernels.get(case.op, ""))
        theirs = {(each.name, each.code_sha256) for each in compiled.get((case.name, rival.name), ())}
        if same := sorted(name for name, _ in code & theirs if name in own):
            return f"{same[0]} is the kernel of {rival.name}; a profile that launches it too must name it"
    return ""


def _threads(kernel: Kernel) -> int | None:
    """Of a block: ncu writes '(256, 1, 1)'. None where it writes something else."""
    sides = re.fullmatch(r"\((\d+), *(\d+), *(\d+)\)", kernel.block)
    return math.prod(map(int, sides.groups())) if sides else None


def _in_words(launches: set[tuple[int, int]] | set[tuple[float | None, int | None]]) -> str:
    pairs = sorted((registers or 0, threads or 0) for registers, threads in launches)
    return " or ".join(f"{registers:.0f} registers and {threads} threads a block" for registers, threads in pairs)
