"""Which code each sweep drew of what is compiled or tuned at run time, and what it cost."""

from lab.definition.plan import PlannedCase
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.figure import Ledger
from lab.website.pages.case_views import Draw, Draws
from lab.website.pages.compiled import HASH_DIGITS

MOST_CODES = 3  # kernels of one call whose sums are shown


def draws(item: Judged, case: PlannedCase, ledger: Ledger) -> tuple[Draws, ...]:
    """None where no profile of the case is compiled or tuned at run time."""
    found: list[Draws] = []
    if item.on_cpu:  # there a compiler chooses nothing by its clock
        return ()
    for profile in item.plan.profiles_of(case):
        path = ("cells", case.name, profile.name, "draws")
        held = ledger.value(*path)
        if held:
            rows = tuple(_draw(ledger, (*path, "sweeps", str(number))) for number in range(len(held["sweeps"])))
            found.append(
                Draws(profile=profile.title, fresh=held["fresh"], codes=ledger.figure(*path, "codes"), rows=rows)
            )
    return tuple(found)


def _draw(ledger: Ledger, path: tuple[str, ...]) -> Draw:
    codes = [code[:HASH_DIGITS] for code in ledger.value(*path, "code").split()]
    more = [f"and {len(codes) - MOST_CODES} more"] if len(codes) > MOST_CODES else []
    return Draw(
        sweep=ledger.value(*path, "sweep") + 1,
        codes=" ".join([*codes[:MOST_CODES], *more]),
        configuration=ledger.value(*path, "configuration"),
        p50=ledger.figure(*path, "p50_seconds", show=format.microseconds),
        compile_time=ledger.figure(*path, "compile_seconds", show=format.seconds),
        autotune_time=ledger.figure(*path, "autotune_seconds", show=format.seconds),
        blind=ledger.value(*path, "blind"),
    )
