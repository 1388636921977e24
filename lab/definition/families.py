"""Whose implementation a profile is, by the name that readers know: of one library, the lab, or PyTorch. In an
experiment whose profiles are all of one family each stands for itself.

Derived from the plan, so that it works for runs of any age. A table that sets implementations side by side has
a column for each family, in this order.
"""

from collections.abc import Iterable

from lab.definition.plan import PlannedExperiment, PlannedProfile

FAMILIES = {
    "lab-triton": "lab (Triton)",
    "lab-cuda": "lab (CUDA C++)",
    "compile": "torch.compile",
    "liger": "Liger",
    "quack": "QuACK",
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "fa4": "FA4",
    "fused": "PyTorch, one call",
    "eager": "PyTorch, several calls",
    "other": "other",
}
PROFILE = "profile "  # before the name of one that stands for itself
PACKAGES = {"liger_kernel": "liger", "quack": "quack", "flash_attn": "fa4"}  # by the name that is imported
WRITTEN_OUT = ("baseline", "eager", "math", "dequantised")  # in the names of profiles of several PyTorch operations
ONE_CALL = "PyTorch's default"  # the title of one that is a single operation, though its name says baseline
LIBRARY = ("torch", "sdpa")  # at the beginning of the names of PyTorch's own calls


def families_of(plan: PlannedExperiment) -> dict[str, str]:
    """By profile a key of FAMILIES; where all are of one family, as in most people's projects, 'profile NAME'."""
    families = {profile.name: _family_of(profile) for profile in plan.profiles}
    return families if len(set(families.values())) > 1 else {name: f"{PROFILE}{name}" for name in families}


def heading(family: str) -> str:
    return FAMILIES.get(family, family.removeprefix(PROFILE))


def in_order(families: Iterable[str]) -> list[str]:
    """As columns of a table; those that are profiles stand last, by name."""
    known = list(FAMILIES)
    return sorted(families, key=lambda family: (known.index(family) if family in known else len(known), family))


def _family_of(profile: PlannedProfile) -> str:
    if profile.package:
        return PACKAGES.get(profile.package, "other")
    if profile.recompiles or profile.technique.startswith("torch.compile"):
        return "compile"
    if profile.kernels:
        return "lab-cuda" if "CUDA C++" in profile.technique else "lab-triton"
    words = f"{profile.name} {profile.title}".lower()
    for library in ("cublas", "cudnn"):
        if library in words:
            return library
    if profile.title != ONE_CALL and any(word in profile.name for word in WRITTEN_OUT):
        return "eager"
    return "fused" if profile.name.startswith(LIBRARY) else "other"


def leading(plan: PlannedExperiment) -> frozenset[str]:
    """The profiles that the headline claims are about."""
    subjects = {claim.name: claim.subject for claim in plan.claims}
    return frozenset(subjects[name] for name in plan.headlines)
