"""What Triton compiled for a cell: its own metadata of each kernel that the call launched."""

from collections.abc import Mapping
from typing import Any

from lab.definition.plan import PlannedCase, PlannedProfile
from lab.website import format
from lab.website.figure import Ledger, pointer
from lab.website.pages.hardware_views import CompiledRow

HASH_DIGITS = 12


def compiled_rows(case: PlannedCase, profile: PlannedProfile, ledger: Ledger) -> list[CompiledRow]:
    """The Triton kernels of a cell; none where the run did not record them."""
    path = ("cells", case.name, profile.name, "compiled")
    found = ledger.value(*path)
    if found is None:
        return []

    def row(number: int, kernel: Mapping[str, Any]) -> CompiledRow:
        place = (*path, "kernels", str(number))
        return CompiledRow(
            at=pointer(*path),
            profile=profile.title,
            name=kernel["name"],
            registers=ledger.figure(*place, "registers_per_thread"),
            spills=ledger.figure(*place, "spills"),
            shared=ledger.figure(*place, "shared_bytes", show=format.kilobytes),
            warps=ledger.figure(*place, "warps"),
            stages=ledger.figure(*place, "stages"),
            configuration=", ".join(f"{name}={value}" for name, value in kernel["configuration"].items()),
            code=kernel["code_sha256"][:HASH_DIGITS],
            compile_time=ledger.figure(*path, "compile_seconds", show=format.seconds),
            autotune_time=ledger.figure(*path, "autotune_seconds", show=format.seconds),
            variants=ledger.figure(*path, "variants") if found["variants"] > 1 else None,
        )

    return [row(number, kernel) for number, kernel in enumerate(found["kernels"])]
