"""What `lab validity` and `lab simulate` say: how often the lab and its rules err, as lines for a terminal."""

from collections.abc import Iterator, Sequence

from lab.verdict.between_boards import BoardSpread, board_spreads
from lab.verdict.estimates import Estimates, estimates
from lab.verdict.neighbours import Neighbours, neighbours
from lab.verdict.plain_words import STATUS_WORDS
from lab.verdict.pooled import Pooled, pooled
from lab.verdict.repeatability import CHANGED, HOLDING, ZERO, Repeatability, repeatability
from lab.verdict.results import RunResult
from lab.verdict.simulated import SimulationTable, missed
from lab.verdict.statistics import per_cent
from lab.verdict.validity import Power, SelfComparison, Study, study
from lab.website.format import interval, microseconds, ratio


def describe_runs(runs: Sequence[RunResult], one_code: bool) -> Iterator[str]:
    """All that runs say of the lab. `one_code`: they measured one code, whatever else of the source changed."""
    yield from describe_validity(study(runs))
    yield from describe_repeats(repeatability(runs, one_code), estimates(runs, one_code))
    yield from describe_pooled(pooled(runs))
    yield from describe_boards(board_spreads(runs))
    yield from describe_neighbours(neighbours(runs))


def describe_validity(known: Study) -> Iterator[str]:
    yield f"{known.sessions} sessions of five sweeps on a GPU"
    for label, comparison in (
        ("the same function under two names", known.same),
        ("controls of other runs", known.controls),
    ):
        yield f"  {label}: {_self_comparison(comparison)}"
    for case, comparison in known.by_case.items():
        yield f"    {case:34} {_self_comparison(comparison)}"
    for power in known.power:
        yield (
            f"  {power.known_ratio:.2f}x: {power.trials} trials, {_right(power)}{power.withheld} "
            f"too noisy to call, {power.excluding_one} intervals without 1, {power.covering} hold the ratio"
        )
    for repeat in known.repeats:
        gpus = f"on {repeat.gpus} boards of one GPU model"
        yield f"  {repeat.experiment}: {repeat.runs} runs of {repeat.sources} versions of the source, {gpus}"
        yield (
            f"    {repeat.comparisons} claims at cases: {repeat.flip_count} reversed, {repeat.changed_count} changed, "
            f"{repeat.disjoint_count} pairs of intervals apart"
        )
        yield (
            f"    p50 of {repeat.within} of {repeat.cells} cells within 1 %, "
            f"at most {per_cent(repeat.largest_deviation, 2)} off ({repeat.largest_at})"
        )
        for word, places in (("reversed", repeat.flips), ("changed", repeat.changed), ("apart", repeat.disjoint)):
            yield from (f"    {word}: {place}" for place in places)
    for agreement in known.agreements:
        times = ", ".join(f"{name} {microseconds(seconds)}" for name, seconds in agreement.seconds.items())
        yield f"  {agreement.case} {agreement.profile}: device_cold {microseconds(agreement.p50_seconds)}; {times} µs"


def describe_repeats(repeats: Sequence[Repeatability], constants: Estimates) -> Iterator[str]:
    """How often a repeated run agrees, beside the goals, and what the constants of the rules would be."""
    for each in repeats:
        counted = f"{each.runs} runs on {each.boards} boards, {each.pairs} pairs of claims at cases"
        yield f"{each.gpu}, {each.kind}: {counted}"
        yield (
            f"  {per_cent(each.holding_share, 1)} of the intervals hold the other speed-up (goal {per_cent(HOLDING)}), "
            f"{per_cent(each.zero_share, 1)} of the differences are within error (goal {per_cent(ZERO)})"
        )
        yield (
            f"  {per_cent(each.changed_share, 1)} of the verdicts changed (goal at most {per_cent(CHANGED)}), "
            f"{each.flipped} reversed (goal 0), {each.undecided} open in both"
        )
    if not repeats:
        yield "no two runs of one source and protocol, so repeats cannot be compared"
    if constants.session_share is not None:
        yield f"  between sessions: {constants.session_share:.2f} of the standard deviation of sweeps"
    for sessions in constants.sessions:
        yield (
            f"  fixed kernels that are taken to scatter between runs by {per_cent(sessions.floor, 2)} at least: "
            f"{sessions.comparisons} comparisons scatter by {per_cent(sessions.seen_floor, 2)} beyond what sweeps "
            f"explain; of three runs and more: {' '.join(f'{value:.4f}' for value in sessions.beyond_sweeps) or '–'}"
        )
    if constants.draw_spread is not None:
        yield f"  between choices of an autotuner: {per_cent(constants.draw_spread, 1)}"
    for kind, deciles in constants.sweep_deciles.items():
        yield f"  deciles of the sweeps' standard deviations, {kind}: {' '.join(f'{value:.4f}' for value in deciles)}"
    yield from _minorities(constants)


def _minorities(constants: Estimates) -> Iterator[str]:
    for side, each in zip(("baseline", "subject"), constants.minorities, strict=True):
        if each.by_sweeps:
            counts = ", ".join(f"{count} in {sweeps}" for sweeps, count in each.by_sweeps.items())
            apart = " ".join(f"{value:.3f}" for value in each.apart_deciles)
            yield (
                f"  code compiled in each of nine sweeps, {each.comparisons} comparisons: the {side} is slower in a "
                f"few sweeps ({counts}), by (deciles of the logarithm) {apart}"
            )


def describe_pooled(pools: Sequence[Pooled]) -> Iterator[str]:
    """Claims at cases over three runs and more of one source."""
    for each in pools:
        if each.low is not None and each.high is not None:
            place = f"{each.place.claim} at {each.place.case}"
            said = f"{ratio(each.ratio, each.low, each.high)} {interval(each.low, each.high)}"
            word = f"{STATUS_WORDS[each.status]}, " if each.status else ""
            yield f"  {place}: {word}{said} over {len(each.runs)} runs on {each.boards} boards"


def describe_boards(spreads: Sequence[BoardSpread]) -> Iterator[str]:
    """What runs on several boards say of the difference between boards."""
    for each in spreads:
        yield (
            f"{each.gpu}, {each.boards} boards beside one another in runs, {each.comparisons} claims at cases: "
            f"standard deviation {per_cent(each.between, 2)} between boards, {per_cent(each.within, 2)} between sweeps "
            f"of one board"
        )


def describe_neighbours(compared: Sequence[Neighbours]) -> Iterator[str]:
    """Whether GPUs that measure at the same time disturb one another."""
    for each in compared:
        interval = "" if each.low is None or each.high is None else f" [{100 * each.low:+.2f}, {100 * each.high:+.2f}]"
        yield (
            f"{each.gpu}, {each.scope}: neighbours change times by {100 * each.shift:+.2f} %{interval}, over "
            f"{each.cells} cells of {each.boards} boards; sweeps scatter by {per_cent(each.scatter_beside, 2)}, "
            f"alone by {per_cent(each.scatter_alone, 2)}"
        )


def describe_simulation(table: SimulationTable) -> Iterator[str]:
    """A line for each process and truth, and the goals that are missed."""
    yield f"policy {table.policy_version}, seed {table.seed}, {table.comparisons} comparisons a row"
    for row in table.rows:
        supported, refuted = (per_cent(count / row.comparisons, 2) for count in (row.supported, row.refuted))
        yield (
            f"  {row.process:44} true {row.truth:<7g} supported {supported:>8}  refuted {refuted:>8}  "
            f"{row.sweeps / row.comparisons:.1f} sweeps"
        )
    yield from (f"  goal missed: {goal}" for goal in missed(table.rows))


def _right(power: Power) -> str:
    return "" if power.right is None else f"{power.right} right verdicts, "


def _self_comparison(counts: SelfComparison) -> str:
    return f"{counts.comparisons} comparisons, {counts.supported} faster, {counts.excluding_one} intervals without 1"
