"""What a page tells of the profiler's pass, of Triton's compiler, and of the bytes that were moved."""

import dataclasses
from collections.abc import Callable

from factory import LARGE, plan_of, records_of, small_experiment, triton_kernel
from page_parts import figures, row_of, texts_of

from lab.evidence.record import Cell, Counters, Kernel, Record, RunStart
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.figure import DataView
from lab.website.pages.hardware import case_traffic
from lab.website.pages.kernels import NO_DETAILS, kernels_fold
from lab.website.table import Fold, PageTable, plain

TIMES = {(LARGE.name, "plain"): 90e-6, (LARGE.name, "fast"): 60e-6}
LONG = Kernel(
    name="long_kernel", grid="(4096, 1, 1)", block="(32, 16, 1)", duration_seconds=3e-6, dram_read_bytes=100e6,
    dram_written_bytes=50e6, dram_percent=60.0, occupancy_percent=80.0, registers_per_thread=40.0,
    shared_bytes_per_block=2048.0, theoretical_occupancy_percent=100.0,
    blocks_per_multiprocessor={"registers": 4.0, "warps": 4.0, "shared_mem": 9.0}, l2_hit_percent=50.0,
    sm_percent=30.0, tensor_percent=0.0, l1_hit_percent=70.0, stalls={"barrier": 1.0, "long_scoreboard": 9.0},
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


def fold_of(item: Judged) -> Fold:
    case = next(case for case in item.plan.cases if case.name == LARGE.name)
    fold = kernels_fold(item, case, DataView(item.data))
    assert fold is not None
    return fold


def kernels_of(item: Judged) -> PageTable:
    return fold_of(item).tables[0]


def test_every_kernel_of_a_call_is_shown_with_what_the_profiler_told() -> None:
    table = kernels_of(item_of(counted("plain", kernels=(LONG, SHORT))))
    assert texts_of(table, "long_kernel 4096 blocks of 32×16") == [
        "3.000", "100", "50.0", "60.0", "80.0", "100.0 registers and warps", "40", "2.05", "70.0", "50.0", "30.0",
        "0.0",
        "waiting for memory (long scoreboard)",
    ]  # fmt: skip
    assert figures(row_of(table, "long_kernel").cells[1])[0].source == (
        f"/cells/{LARGE.name}/plain/counters/kernels/0/duration_seconds"
    )


def test_a_limiter_and_a_stall_without_a_known_name_keep_their_own() -> None:
    texts = texts_of(kernels_of(item_of(counted("plain", kernels=(LONG, SHORT)))), "short_kernel")
    assert texts[5].endswith("shared memory")
    assert texts[-1] == "new reason"


def test_the_row_of_all_kernels_sums_time_and_bytes_and_weighs_percentages_by_duration() -> None:
    texts = texts_of(kernels_of(item_of(counted("plain", kernels=(LONG, SHORT)))), "all 2 kernels")
    assert texts[:5] == ["4.000", "120", "100", "50.0", "80.0"]
    assert texts[6] == "–", "a call has no registers of its own"


def test_a_call_of_one_kernel_needs_no_row_of_all() -> None:
    assert not [row for row in kernels_of(item_of()).rows if plain(row.cells[0]).startswith("all")]


def test_the_essentials_of_a_call_stand_in_its_heading() -> None:
    heading = plain(row_of(kernels_of(item_of(counted("plain", kernels=(LONG, SHORT)))), "plain").cells[0])
    assert heading == "plain 2 kernels, 1.64× the least bytes, 50.0 % DRAM, 80.0 % occupancy"


def test_what_one_kernel_lacks_is_no_number_of_the_call() -> None:
    unread = dataclasses.replace(SHORT, dram_read_bytes=None)
    table = kernels_of(item_of(counted("plain", kernels=(LONG, unread))))
    assert texts_of(table, "short_kernel")[1] == "–"
    assert texts_of(table, "all 2 kernels")[1:3] == ["–", "100"]


def test_blocked_counters_show_their_typed_reason() -> None:
    blocked = {"outcome": "blocked", "blocker": "wrong-kernel", "reason": "it is not its own", "kernels": ()}
    heading = plain(row_of(kernels_of(item_of(counted("plain", **blocked))), "plain").cells[0])
    assert heading == "plain: blocked (wrong-kernel): it is not its own"


def test_the_page_says_who_counted_and_how() -> None:
    lead = plain(fold_of(item_of(counted("plain", report_bytes=53_700_000))).lead)
    assert (
        "Nsight Compute 2025.3.1.0 counted the lab's chosen metrics, emptied the caches before each kernel and left "
        "the clocks alone. Its report has 53.7 MB."
    ) in lead
    assert "ab" * 32 in lead
    full = item_of(counted("plain", metric_set="full", cache_control="none", clock_control="base"))
    assert "counted its full set of metrics, left the caches alone and held the clocks at their base." in plain(
        fold_of(full).lead
    )


def test_a_run_that_was_not_profiled_shows_no_kernels() -> None:
    item = item_of(profiling=False)
    view = DataView(item.data)
    assert [kernels_fold(item, case, view) for case in item.plan.cases] == [None, None]
    assert [case_traffic(item, case, view) for case in item.plan.cases] == [None, None]


def test_an_older_run_is_known_to_lack_the_details() -> None:
    def older(record: Record) -> Record:
        return dataclasses.replace(record, schema=3) if isinstance(record, RunStart) else record

    assert NO_DETAILS not in plain(fold_of(item_of()).lead)
    assert NO_DETAILS in plain(fold_of(item_of(older)).lead)


def compiled(record: Record) -> Record:
    """What Triton made of `fast`: compiled in the first sweep, and with other code in the last."""
    if not isinstance(record, Cell) or (record.case, record.profile) != (LARGE.name, "fast"):
        return record
    kernel = triton_kernel("a_kernel", registers=48, warps=4, code="ef" if record.sweep == 2 else "cd")
    return dataclasses.replace(
        record, compiled=(kernel,), compile_seconds=1.25 if record.sweep == 0 else None, autotune_seconds=None
    )


def test_tritons_own_metadata_stands_beside_the_kernels() -> None:
    table = fold_of(item_of(compiled)).tables[1]
    assert texts_of(table, "fast") == [
        "a_kernel", "48", "0", "0.0320", "4", "3", "BLOCK=4096", "cdcdcdcdcdcd one of 2 over the sweeps", "1.2", "–"
    ]  # fmt: skip


def test_what_was_compiled_is_shown_without_a_profiler_too() -> None:
    plan = plan_of(experiments=[small_experiment()], include=["large-sweep"], sweeps=3)
    run = judge_run(plan, [compiled(record) for record in records_of(plan, TIMES)])
    (table,) = fold_of(judged_run(run)[0]).tables
    assert table.label == "What Triton compiled"


def test_the_bytes_of_each_call_are_held_against_the_least() -> None:
    item = item_of(counted("plain", kernels=(LONG, SHORT)))
    view = DataView(item.data)
    case = next(case for case in item.plan.cases if case.name == LARGE.name)
    at_case = case_traffic(item, case, view)
    assert at_case is not None
    table = at_case.tables[0]
    assert "at least 134 MB" in plain(table.caption)
    assert texts_of(table, "plain")[:3] == ["120", "100", "1.64×"]
    assert texts_of(table, "plain")[3].startswith("excess moves 1.64× what it must")
    assert texts_of(table, "fast")[3].startswith("reconciled")
