"""What stands beside a time: what its clock leaves out, what another clock says, which code a sweep drew."""

import dataclasses

from factory import FAST_BEATS_PLAIN, PLAIN, SMALL, plan_of, profile, records_of, small_experiment

from lab.definition.plan import make_protocol
from lab.evidence.record import Cell, Compiled, Reading, Record, SweepStart
from lab.profiler.readings import DO_BENCH
from lab.verdict.results import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.figure import Sentence
from lab.website.outputs import Gathered
from lab.website.pages.case import CasePage, case_pages
from lab.website.pages.experiment import experiment_page

FAST = profile("fast", recompiles=True)
CLAIM = dataclasses.replace(FAST_BEATS_PLAIN, subject=FAST, baseline=PLAIN, cases=(SMALL,))
LONG = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6}
SHORT = {(SMALL.name, "plain"): 6e-6, (SMALL.name, "fast"): 4e-6}


def item_of(
    times: dict[tuple[str, str], float] = LONG, *more: Record, change: object = None, fresh: bool = True
) -> Judged:
    scopes = ("device_cold", "device_warm", "graph", "eager")
    experiment = small_experiment(profiles=(PLAIN, FAST), claims=(CLAIM,), headlines=(CLAIM,), scopes=scopes)
    protocol = dataclasses.replace(make_protocol(5, "cuda"), fresh_caches=fresh)
    plan = plan_of("notes", experiments=[experiment], include=(), protocol=protocol)
    *records, end = records_of(plan, times, noise=0.001)
    if change is not None:
        records = [change(record) for record in records]  # type: ignore[operator]
    return judged_run(judge_run(plan, [*records, *more, end]), digest="e" * 64)[0]


def page_of(item: Judged) -> CasePage:
    gathered = Gathered(label="", current=(item,), published=(), decisions=(), files=())
    (page,) = (d.view["page"] for d in case_pages(gathered) if f"/{SMALL.name}/" in d.path)
    assert isinstance(page, CasePage)
    return page


def told(sentence: Sentence) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


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
    notes = [told(note) for cell in page_of(item_of(SHORT, change=with_events)).cells for note in cell.notes]
    assert any("two events alone read 1.280 µs of it" in note for note in notes)
    long = [told(note) for cell in page_of(item_of(LONG, change=with_events)).cells for note in cell.notes]
    assert not any("events" in note for note in long)


def test_a_call_that_is_faster_cold_than_warm_says_so_beside_its_time() -> None:
    page = page_of(item_of(change=with_warm(1.2)))
    assert page.is_cold_short
    assert all("shorter than device_warm and graph" in [told(note) for note in cell.notes] for cell in page.cells)
    usual = page_of(item_of(change=with_warm(0.9)))
    assert not usual.is_cold_short
    assert not any(cell.notes for cell in usual.cells)


def test_the_experiments_page_counts_them() -> None:
    assert "2 of 2 cells are faster with nothing cached" in told(
        experiment_page(item_of(change=with_warm(1.2)), []).cells_note
    )
    assert experiment_page(item_of(change=with_warm(0.9)), []).cells_note == ()


def reading(name: str, seconds: float) -> Reading:
    return Reading(
        experiment="doubling", case=SMALL.name, profile=name, instrument=DO_BENCH, seconds=seconds, reason=""
    )  # fmt: skip


def test_another_clock_stands_beside_ours_and_is_marked_where_it_would_turn_the_verdict() -> None:
    page = page_of(item_of(LONG, reading("plain", 60e-6), reading("fast", 59.5e-6)))
    assert page.clock_names == ("do_bench",)
    (row,) = page.clocks_of_claims
    ((ratio, turned),) = row.ratios
    assert ratio is not None
    assert (ratio.text, turned) == ("1.01×", True)
    agreeing = page_of(item_of(LONG, reading("plain", 60e-6), reading("fast", 41e-6)))
    assert agreeing.clocks_of_claims[0].ratios[0][1] is False
    assert page_of(item_of()).clocks_of_claims == ()


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
    (found,) = page_of(item_of(change=drew)).draws
    assert found.profile == "fast"
    assert found.codes is not None
    assert found.codes.value == 2
    assert [row.codes for row in found.rows] == ["b" * 12, "a" * 12] * 2 + ["b" * 12]
    assert found.rows[0].configuration == "XBLOCK=1, warps=8, stages=1"
    assert found.rows[0].autotune_time is not None


def test_evidence_whose_sweeps_share_one_choice_says_one_draw() -> None:
    (shared,) = page_of(item_of(fresh=False)).draws
    (anew,) = page_of(item_of(fresh=True)).draws
    assert (shared.fresh, anew.fresh) == (False, True)


def slow_sweeps(record: Record) -> Record:
    """One of five sweeps of `fast` took a tenth longer: the median leaves it out, the mean does not."""
    if not isinstance(record, Cell) or record.profile != "fast" or record.sweep > 0:
        return record
    slower = [dataclasses.replace(each, rounds=tuple(tuple(1.1 * s for s in r) for r in each.rounds))
              for each in record.timings]  # fmt: skip
    return dataclasses.replace(record, timings=tuple(slower))


def test_a_ratio_that_is_no_quotient_of_the_medians_beside_it_says_what_theirs_is() -> None:
    page = page_of(item_of(change=slow_sweeps))
    assert page.medians
    (claim,) = page.claims
    assert claim.quotient is not None
    assert abs(float(claim.quotient.value) - 1.5) < 0.02
    assert "by the two medians" in told(page.answer)
    usual = page_of(item_of())
    assert not usual.medians
    assert usual.claims[0].quotient is None
