"""What stands beside a time: what its clock leaves out, what another clock says, which code a sweep drew."""

import dataclasses
from types import SimpleNamespace as View

import pytest
from factory import FAST_BEATS_PLAIN, PLAIN, SMALL, plan_of, profile, records_of, small_experiment
from page_parts import figures, section_of, words_of

from lab.definition.planning import make_protocol
from lab.evidence.record import Cell, Compiled, Reading, Record, RunStart, SweepStart
from lab.profiler.readings import DO_BENCH
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.outputs import SiteContext
from lab.website.pages.case import SHORT_COLD, case_pages
from lab.website.pages.experiment import experiment_page
from lab.website.table import PageTable, Strong, plain

FAST = profile("fast", recompiles=True)
CLAIM = dataclasses.replace(FAST_BEATS_PLAIN, subject=FAST, baseline=PLAIN, cases=(SMALL,))
LONG = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6}
SHORT = {(SMALL.name, "plain"): 6e-6, (SMALL.name, "fast"): 4e-6}


def item_of(
    times: dict[tuple[str, str], float] = LONG, *more: Record, change: object = None, fresh: bool = True,
    isolated: bool = True, device: str = "cuda",
) -> Judged:  # fmt: skip
    scopes = ("device_cold", "device_warm", "graph", "eager")
    experiment = small_experiment(profiles=(PLAIN, FAST), claims=(CLAIM,), headlines=(CLAIM,), scopes=scopes)
    protocol = dataclasses.replace(make_protocol(5, device), fresh_caches=fresh, isolated=isolated)
    plan = plan_of("notes", device=device, experiments=[experiment], include=(), protocol=protocol)
    *records, end = records_of(plan, times, noise=0.001)
    if change is not None:
        records = [change(record) for record in records]  # type: ignore[operator]
    return judged_run(judge_run(plan, [*records, *more, end]), digest="e" * 64)[0]


def page_of(item: Judged) -> View:
    context = SiteContext(label="", current=(item,), published=(), decisions=(), files=())
    (page,) = (d.view["page"] for d in case_pages(context) if f"/{SMALL.name}/" in d.path)
    assert isinstance(page, View)
    return page


def table(page: View, name: str) -> PageTable:
    fold = section_of(page, name)
    assert fold is not None, name
    return fold.tables[0]


def times(page: View) -> list[str]:
    """What stands in the column of medians."""
    return [plain(row.cells[1]) for row in table(page, "cells").rows]


def with_events(record: Record) -> Record:
    return dataclasses.replace(record, empty_seconds=1.28e-6) if isinstance(record, SweepStart) else record


def with_warm(factor: float):
    """Every other scope takes so many times as long as device_cold."""

    def change(record: Record) -> Record:
        if not isinstance(record, Cell):
            return record
        cold = next(each.rounds for each in record.timings if each.scope == "device_cold")
        slower = tuple(tuple(factor * second for second in each) for each in cold)
        timings = (each if each.scope == "device_cold" else dataclasses.replace(each, rounds=slower)
                   for each in record.timings)  # fmt: skip
        return dataclasses.replace(record, timings=tuple(timings))

    return change


def test_a_short_time_says_what_two_events_cost_and_a_long_one_does_not() -> None:
    short = times(page_of(item_of(SHORT, change=with_events)))
    assert any("1.28 µs of this is the timer itself" in each for each in short)
    assert not any("timer" in each for each in times(page_of(item_of(LONG, change=with_events))))


def test_calls_that_are_faster_cold_than_warm_are_explained_below_their_times() -> None:
    page = page_of(item_of(change=with_warm(1.2)))
    assert any(remark == (SHORT_COLD,) for remark in section_of(page, "cells").items)  # type: ignore[union-attr]
    usual = page_of(item_of(change=with_warm(0.9)))
    assert section_of(usual, "cells").items == ()  # type: ignore[union-attr]


def test_short_times_of_a_run_whose_host_went_on_enqueuing_are_said_to_be_too_long() -> None:
    short, newer, long = item_of(SHORT, isolated=False), item_of(SHORT), item_of(isolated=False)
    said = (
        "The times were taken while the host went on enqueuing, so that each call reads about half a microsecond "
        "longer."
    )
    for item, told in ((short, True), (newer, False), (long, False)):
        assert ((said,) in section_of(page_of(item), "cells").items) == told  # type: ignore[union-attr]
        assert (said in words_of(experiment_page(item, []).cells_note)) == told


def test_the_experiments_page_counts_them() -> None:
    assert "2 of 2 cells are faster with a cold cache than with a warm one" in words_of(
        experiment_page(item_of(change=with_warm(1.2)), []).cells_note
    )
    assert experiment_page(item_of(change=with_warm(0.9)), []).cells_note == ()


def test_a_cpus_times_are_not_explained_by_a_gpus_cache() -> None:
    item = item_of(change=with_warm(1.2), device="cpu")
    assert experiment_page(item, []).cells_note == ()
    assert section_of(page_of(item), "cells").items == ()  # type: ignore[union-attr]


def reading(name: str, seconds: float) -> Reading:
    return Reading(
        experiment="doubling", case=SMALL.name, profile=name, instrument=DO_BENCH, seconds=seconds, reason=""
    )  # fmt: skip


def test_another_clock_stands_beside_ours_and_is_bold_where_it_would_turn_the_verdict() -> None:
    clocks = table(page_of(item_of(LONG, reading("plain", 60e-6), reading("fast", 59.5e-6))), "clocks")
    assert [head.text for head in clocks.heads[1:]] == ["Cold cache", "do_bench"]
    (turned,) = clocks.rows[0].cells[2]
    assert isinstance(turned, Strong)
    assert plain((turned,)) == "1.01×"
    agreeing = table(page_of(item_of(LONG, reading("plain", 60e-6), reading("fast", 41e-6))), "clocks")
    assert not isinstance(agreeing.rows[0].cells[2][0], Strong)
    assert section_of(page_of(item_of()), "clocks") is None


def drew(record: Record) -> Record:
    """Every second sweep drew other code."""
    if not isinstance(record, Cell) or record.profile != "fast":
        return record
    kernel = Compiled(
        name="k", registers_per_thread=32, spills=0, shared_bytes=0, warps=8, stages=1,
        configuration={"XBLOCK": "1"}, code_sha256=("a" if record.sweep % 2 else "b") * 64, generator="inductor",
    )  # fmt: skip
    return dataclasses.replace(record, compiled=(kernel,), autotune_seconds=0.5)


def test_each_sweep_shows_the_code_that_it_drew_and_what_it_cost() -> None:
    heading, *sweeps = table(page_of(item_of(change=drew)), "draws").rows
    assert plain(heading.cells[0]) == "fast: every sweep chose anew: 2 different codes"
    assert [plain(row.cells[1]) for row in sweeps] == ["b" * 12, "a" * 12] * 2 + ["b" * 12]
    assert plain(sweeps[0].cells[2]) == "XBLOCK=1, warps=8, stages=1"
    assert plain(sweeps[0].cells[5]) == "0.50"


def test_evidence_whose_sweeps_share_one_choice_says_one_draw() -> None:
    headings = [plain(table(page_of(item_of(fresh=fresh)), "draws").rows[0].cells[0]) for fresh in (False, True)]
    assert ["one draw" in heading for heading in headings] == [True, False]


def draws_of(schema: int = 11, fresh: bool = True, seconds: float | None = None) -> str:
    """The caption of the table of draws, of a run whose records have this schema and took so long to compile."""

    def changed(record: Record) -> Record:
        if isinstance(record, RunStart):
            return dataclasses.replace(record, schema=schema)
        record = drew(record)
        return dataclasses.replace(record, compile_seconds=seconds) if isinstance(record, Cell) else record

    return plain(table(page_of(item_of(change=changed, fresh=fresh)), "draws").caption)


def test_a_dash_for_the_seconds_of_compiling_is_explained_by_what_the_run_did() -> None:
    assert "came from an earlier sweep" in draws_of()
    assert "timed anew in each sweep" in draws_of()
    assert draws_of(fresh=False) == "Compiled in –: the binary was in the cache that all sweeps share."
    assert draws_of(schema=3) == "This run did not record how long it compiled."
    assert draws_of(seconds=0.5) == ""


@pytest.mark.parametrize(("fresh", "mark"), [(False, "one draw"), (True, "")])
def test_a_claim_that_rests_on_one_draw_is_marked_on_its_page(fresh: bool, mark: str) -> None:
    item = item_of(fresh=fresh)
    (claim,) = experiment_page(item, []).claims
    assert claim.mark == mark


def slow_sweeps(record: Record) -> Record:
    """One of five sweeps of `fast` took a tenth longer: the median leaves it out, the mean does not."""
    if not isinstance(record, Cell) or record.profile != "fast" or record.sweep > 0:
        return record
    slower = [dataclasses.replace(each, rounds=tuple(tuple(1.1 * s for s in r) for r in each.rounds))
              for each in record.timings]  # fmt: skip
    return dataclasses.replace(record, timings=tuple(slower))


def test_a_ratio_that_is_no_quotient_of_the_medians_beside_it_says_what_theirs_is() -> None:
    page = page_of(item_of(change=slow_sweeps))
    (row,) = table(page, "claims").rows
    _, quotient = figures(row.cells[2])
    assert abs(float(quotient.value) - 1.5) < 0.02
    assert "medians" in plain(row.cells[2])
    assert "by the two medians" in words_of(page.answer)
    (usual,) = table(page_of(item_of()), "claims").rows
    assert "medians" not in plain(usual.cells[2])
