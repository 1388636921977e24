"""What a page tells of the profiler's pass, of Triton's compiler, and of the bytes that were moved."""

import dataclasses
from collections.abc import Callable

from factory import LARGE, plan_of, records_of, small_experiment, triton_kernel

from lab.definition.plan import planned
from lab.evidence.record import Cell, Counters, Kernel, Record, RunStart
from lab.verdict.results import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.pages.hardware_views import KernelsSection, ProfiledCase
from lab.website.pages.kernels import kernels_section
from lab.website.pages.traffic import traffic_group, traffic_section

TIMES = {(LARGE.name, "plain"): 90e-6, (LARGE.name, "fast"): 60e-6}
LONG = Kernel(
    name="long_kernel", grid="(4096, 1, 1)", block="(32, 16, 1)", duration_seconds=3e-6, dram_read_bytes=100e6,
    dram_written_bytes=50e6, dram_percent=60.0, occupancy_percent=80.0, registers_per_thread=40.0,
    shared_bytes_per_block=2048.0, theoretical_occupancy_percent=100.0,
    blocks_per_multiprocessor={"registers": 4.0, "warps": 4.0, "shared_mem": 9.0}, l2_hit_percent=50.0,
    sm_percent=30.0, tensor_percent=0.0, stalls={"barrier": 1.0, "long_scoreboard": 9.0},
)  # fmt: skip
SHORT = dataclasses.replace(
    LONG, name="short_kernel", duration_seconds=1e-6, dram_read_bytes=20e6, dram_percent=20.0,
    blocks_per_multiprocessor={"shared_mem": 2.0, "warps": 4.0}, stalls={"new_reason": 2.0},
)  # fmt: skip
Change = Callable[[Record], Record]


def item_of(change: Change = lambda record: record, profiling: bool = True) -> Judged:
    """A run of the large case, with each of its records changed, as judged."""
    plan = plan_of(experiments=[small_experiment()], include=["large-sweep"], sweeps=3, profiling=profiling)
    run = judge_run(plan, [change(record) for record in records_of(plan, TIMES)])
    return judged_run(run)[0]


def counted(profile: str, **changes: object) -> Change:
    """Change what the profiler told of one profile at the large case."""

    def change(record: Record) -> Record:
        mine = isinstance(record, Counters) and (record.case, record.profile) == (LARGE.name, profile)
        return dataclasses.replace(record, **changes) if mine else record

    return change


def large_of(item: Judged) -> ProfiledCase:
    return next(case for case in section_of(item).cases if case.name == LARGE.name)


def section_of(item: Judged) -> KernelsSection:
    section = kernels_section(item, Ledger(item.data))
    assert section is not None
    return section


def told(sentence: Sentence) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def texts(*figures: Figure | None) -> list[str]:
    return [figure.text if figure else "–" for figure in figures]


def test_every_kernel_of_a_call_is_shown_with_what_the_profiler_told() -> None:
    call = large_of(item_of(counted("plain", kernels=(LONG, SHORT)))).calls[0]
    assert [row.name for row in call.kernels] == ["long_kernel", "short_kernel"]
    row = call.kernels[0]
    assert row.launch == "4096 blocks of 32×16"
    assert texts(row.duration, row.read, row.written, row.dram) == ["3.000", "100", "50.0", "60.0"]
    assert texts(row.occupancy, row.theoretical, row.registers, row.shared) == ["80.0", "100.0", "40", "2.05"]
    assert texts(row.l2_hit, row.sm, row.tensor) == ["50.0", "30.0", "0.0"]
    assert row.duration is not None
    assert row.duration.source == f"/cells/{LARGE.name}/plain/counters/kernels/0/duration_seconds"


def test_the_limiter_of_occupancy_is_named_and_both_where_they_tie() -> None:
    call = large_of(item_of(counted("plain", kernels=(LONG, SHORT)))).calls[0]
    assert [row.limiter for row in call.kernels] == ["registers and warps", "shared memory"]


def test_the_top_stall_is_told_in_plain_words_and_a_new_one_by_its_name() -> None:
    call = large_of(item_of(counted("plain", kernels=(LONG, SHORT)))).calls[0]
    assert [row.stall for row in call.kernels] == ["waiting for memory (long scoreboard)", "new reason"]


def test_the_row_of_all_kernels_sums_time_and_bytes_and_weighs_percentages_by_duration() -> None:
    total = large_of(item_of(counted("plain", kernels=(LONG, SHORT)))).calls[0].total
    assert total is not None
    assert total.name == "all 2 kernels"
    assert texts(total.duration, total.read, total.written) == ["4.000", "120", "100"]
    assert texts(total.dram, total.occupancy, total.registers) == ["50.0", "80.0", "–"]


def test_a_call_of_one_kernel_needs_no_row_of_all() -> None:
    assert large_of(item_of()).calls[0].total is None


def test_the_essentials_of_a_call_stand_in_its_cases_summary() -> None:
    call = large_of(item_of(counted("plain", kernels=(LONG, SHORT)))).calls[0]
    assert told(call.essentials) == "2 kernels, 1.64× the least bytes, 50.0 % DRAM, 80.0 % occupancy"
    assert told(large_of(item_of()).calls[0].essentials).startswith("1 kernel, 1.00× the least bytes")


def test_what_one_kernel_lacks_is_no_number_of_the_call() -> None:
    unread = dataclasses.replace(SHORT, dram_read_bytes=None)
    call = large_of(item_of(counted("plain", kernels=(LONG, unread)))).calls[0]
    assert texts(call.kernels[1].read) == ["–"]
    assert call.total is not None
    assert texts(call.total.read, call.total.written) == ["–", "100"]
    assert told(call.essentials) == "2 kernels, 50.0 % DRAM, 80.0 % occupancy"


def test_blocked_counters_show_their_typed_reason() -> None:
    blocked = {"outcome": "blocked", "blocker": "wrong-kernel", "reason": "it is not its own", "kernels": ()}
    call = large_of(item_of(counted("plain", **blocked))).calls[0]
    assert call.blocked == "blocked (wrong-kernel): it is not its own"
    assert (call.kernels, call.total, told(call.essentials)) == ((), None, "no counters")


def test_the_page_says_who_counted_and_how() -> None:
    section = section_of(item_of(counted("plain", report_bytes=53_700_000)))
    assert told(section.about) == (
        "Nsight Compute 2025.3.1.0 counted the lab's chosen metrics, emptied the caches before each kernel and left "
        "the clocks alone. Its report has 53.7 MB."
    )
    assert section.report_sha256 == "ab" * 32
    full = section_of(item_of(counted("plain", metric_set="full", cache_control="none", clock_control="base")))
    assert told(full.about) == (
        "Nsight Compute 2025.3.1.0 counted its full set of metrics, left the caches alone and held the clocks at their "
        "base."
    )


def test_a_run_that_was_not_profiled_shows_no_kernels() -> None:
    item = item_of(profiling=False)
    ledger = Ledger(item.data)
    assert (kernels_section(item, ledger), traffic_section(item, ledger)) == (None, None)


def test_an_older_run_is_known_to_lack_the_details() -> None:
    def older(record: Record) -> Record:
        return dataclasses.replace(record, schema=3) if isinstance(record, RunStart) else record

    assert section_of(item_of()).detailed
    assert not section_of(item_of(older)).detailed


def compiled(record: Record) -> Record:
    """What Triton made of the profile `fast`: compiled in the first sweep, and with other code in the last."""
    if not isinstance(record, Cell) or (record.case, record.profile) != (LARGE.name, "fast"):
        return record
    kernel = triton_kernel("a_kernel", registers=48, warps=4, code="ef" if record.sweep == 2 else "cd")
    return dataclasses.replace(
        record, compiled=(kernel,), compile_seconds=1.25 if record.sweep == 0 else None, autotune_seconds=None
    )


def test_tritons_own_metadata_stands_beside_the_kernels() -> None:
    (row,) = large_of(item_of(compiled)).compiled
    assert (row.profile, row.name, row.configuration, row.code) == ("fast", "a_kernel", "BLOCK=4096", "cdcdcdcdcdcd")
    assert texts(row.registers, row.spills, row.shared, row.warps, row.stages) == ["48", "0", "0.0320", "4", "3"]
    assert texts(row.compile_time, row.autotune_time) == ["1.2", "–"]


def test_code_that_differs_between_sweeps_is_told() -> None:
    (row,) = large_of(item_of(compiled)).compiled
    assert texts(row.variants) == ["2"]


def test_what_was_compiled_is_shown_without_a_profiler_too() -> None:
    plan = plan_of(experiments=[small_experiment()], include=["large-sweep"], sweeps=3)
    run = judge_run(plan, [compiled(record) for record in records_of(plan, TIMES)])
    case = large_of(judged_run(run)[0])
    assert (case.calls, len(case.compiled)) == ((), 1)


def test_the_bytes_of_each_call_are_held_against_the_least() -> None:
    item = item_of(counted("plain", kernels=(LONG, SHORT)))
    ledger = Ledger(item.data)
    group = traffic_group(item, planned(small_experiment(), frozenset({"large-sweep"})).cases[1], ledger)
    assert group is not None
    assert texts(group.least) == ["134"]
    plain, fast = group.rows
    assert texts(plain.read, plain.written, plain.ratio) == ["120", "100", "1.64×"]
    assert (plain.state, fast.state) == ("excess", "reconciled")
    assert plain.reason.startswith("moves 1.64× what it must")
    section = traffic_section(item, ledger)
    assert section is not None
    (line,) = (line for line in section.lines if line.anchor == LARGE.name)
    assert next((cell[0].text, cell[1]) for cell in line.cells if cell and cell[0]) == ("1.64×", "excess")
