"""The page on trust says how often a repeated run agrees, and pages of claims what several runs say together."""

import dataclasses
from types import SimpleNamespace as View

from factory import FAST_BEATS_PLAIN, LARGE, SMALL, machine, plan_of, records_of, small_experiment

from lab.definition.catalogue import ZOO
from lab.verdict.judge_run import judge_run
from lab.verdict.pooled import pooled
from lab.verdict.repeatability import HOLDING, repeatability
from lab.verdict.results import RunResult
from lab.verdict.validity import EXPERIMENT, study
from lab.website.data.judged import Judged, judged_run
from lab.website.data.published_trust import trust_data
from lab.website.data.zoo_runs import USUAL_BLOCK
from lab.website.figure import DataView, Figure, Sentence
from lab.website.pages.experiment import experiment_page
from lab.website.pages.pooled_verdicts import other_pool_sentence, pooled_of, pooled_sentence
from lab.website.pages.trust import runs_with_known_answers, trust_page
from lab.website.pages.trust_repeatability import missed_goals, repeatability_part
from lab.website.pages.trust_reproducibility import changed_csv, changed_part
from lab.website.table import Soft, plain

TIMES = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6}
CLAIM = dataclasses.replace(FAST_BEATS_PLAIN, cases=(SMALL,))


def run_of(
    run_id: str,
    fast: float = 40e-6,
    seed: int = 1,
    gpu: str = "NVIDIA H200",
    board: str = "",
    large: bool = False,
) -> RunResult:
    claim = FAST_BEATS_PLAIN if large else CLAIM
    include = ("large-sweep",) if large else ()
    plan = plan_of(run_id, experiments=[small_experiment(claims=(claim,), headlines=(claim,))], include=include)
    times = {**TIMES, (SMALL.name, "fast"): fast}
    if large:
        times |= {(LARGE.name, "plain"): 60e-6, (LARGE.name, "fast"): 40e-6}
    on = machine(gpu=gpu, gpu_id=board or run_id)
    return judge_run(plan, records_of(plan, times, noise=0.001, seed=seed, on=on, source="f" * 64))


def shown(run: RunResult) -> Judged:
    return judged_run(run, digest="ab" * 32)[0]


def text_of(sentence: Sentence) -> str:
    return "".join(part.text if isinstance(part, Figure) else part for part in sentence)


def figures_of(parts: Sentence) -> list[Figure]:
    return [part for part in parts if isinstance(part, Figure)]


def trust_of(*runs: RunResult) -> dict:
    return trust_data(study(runs), runs)


ALIKE = tuple(run_of(name, seed=number) for number, name in enumerate(("a", "b", "c")))


def test_repeated_runs_are_counted_by_gpu_model_and_met_goals_are_said_to_be() -> None:
    other = run_of("d", gpu="NVIDIA H100 80GB HBM3")
    view = DataView(trust_of(*ALIKE, other))
    part = repeatability_part(view)
    (row,), (in_csv,) = part["table"].rows, part["csv"].rows
    (counted,) = repeatability(ALIKE)
    texts = [plain(cell) for cell in row.cells]
    assert texts[:3] == ["NVIDIA H200", "fixed kernels", "0.0 % 0.0 % to 56.1 %"]
    assert texts[-3:] == ["3", "3", "3"]
    assert [plain(cell) for cell in in_csv.cells[-2:]] == ["doubling", "a, b, c"]
    assert counted.holding_share >= HOLDING
    assert missed_goals(view) == ()
    assert trust_page(trust_of(*ALIKE))["repeated"]


def test_goals_that_are_missed_are_named_with_figure_and_goal() -> None:
    said = [text_of(goal) for goal in missed_goals(DataView(trust_of(run_of("a"), run_of("b", fast=70e-6))))]
    assert said == [
        "Fixed kernels on H200: 0.0 % of the intervals hold the other run's speed-up, goal at least 85 %",
        "Fixed kernels on H200: 0.0 % of the pairs agree within error, goal at least 93 %",
        "Fixed kernels on H200: 100.0 % of the verdicts changed, goal at most 4 %",
        "Fixed kernels on H200: 1 reversed, goal 0",
    ]


def test_beside_the_table_stands_which_runs_were_compared_and_how_many_each_experiment_has() -> None:
    view = DataView(trust_of(run_of("a"), run_of("b", fast=70e-6, large=True), run_of("c")))
    pairs, wished = (text_of(note) for note in repeatability_part(view)["notes"])
    assert "in 2 of 3 pairs the verdicts differ. Pairs of runs: doubling 3." in pairs
    assert "It is met: doubling has 3." in wished


def test_pairs_with_a_run_that_is_newer_than_the_policy_are_told_first() -> None:
    newer, *all_newer = (
        dataclasses.replace(run, start=dataclasses.replace(run.start, started_utc="2099-01-01T00:00:00Z"))
        for run in (run_of("c", fast=70e-6), *ALIKE[:2])
    )
    first, *_ = (text_of(note) for note in repeatability_part(DataView(trust_of(*ALIKE[:2], newer)))["notes"])
    assert first.endswith(
        "NVIDIA H200, fixed kernels: verdicts differ in 2 of 2 such pairs, 0.0 % of the intervals hold the other "
        "speed-up, 0.0 % of the pairs agree within error."
    )
    notes = repeatability_part(DataView(trust_of(*all_newer, newer)))["notes"]
    assert not any("policy's values" in text_of(note) for note in notes)  # the table says it


def test_tests_with_known_answers_say_of_which_runs_they_are() -> None:
    runs = [
        View(name=name, run_id=run_id, sweeps=sweeps, isolated=False, on_cpu=False, finished_utc="2026-11-21T03:00:00Z")
        for name, run_id, sweeps in ((EXPERIMENT, "long", 30), (EXPERIMENT, "short", 3), ("another", "other", 30))
    ]
    told = runs_with_known_answers(
        {"repeats": {"0": {"experiment": EXPERIMENT, "protocol": "30 × 6 × 20, one cache"}}}, runs
    )
    assert told
    assert told.dates == "2026-11-21"
    assert told.told.startswith(
        "From long (sweeps × rounds × samples: 30 × 6 × 20, one cache; not isolated: the host went on enqueuing"
    )
    assert runs_with_known_answers({"repeats": {}}, runs[1:]) is None


def test_verdicts_that_changed_are_counted_by_experiment_and_named_in_a_csv_file() -> None:
    data = trust_of(run_of("a"), run_of("b", fast=70e-6))
    part = changed_part(DataView(data))
    assert part
    (row,) = part["table"].rows
    assert [plain(cell) for cell in row.cells] == ["doubling", "NVIDIA H200", "1", "2", "1", "1", "1"]
    head, line = changed_csv(data).content.splitlines()
    assert head == "experiment,gpu,protocol,screening,runs,claim,case,reversed"
    assert line.endswith(f"no,2,{CLAIM.name},{SMALL.name},yes")


def test_the_page_begins_with_the_verdicts_that_changed_and_counts_no_screening_of_the_zoo() -> None:
    (repeat,) = study([run_of("a"), run_of("b", fast=70e-6)]).repeats
    screening = dataclasses.replace(repeat, experiment=f"{ZOO}doubling-4", block=USUAL_BLOCK - 1)
    data = trust_data(dataclasses.replace(study([]), repeats=(repeat, screening)), ())
    assert text_of(trust_page(data)["lede"]).startswith(
        "Over all runs of an experiment, changed kernels included and screenings of the zoo left out, 1 of 1 "
        "claims at a case changed their verdict, 1 of them from “holds” to “does not hold” or back."
    )
    assert data["changed_screenings"]["comparisons"] == 1


def test_where_runs_of_one_source_were_repeated_the_page_begins_with_them() -> None:
    """Which is what a reader wants to know of a verdict; changed kernels come after it."""
    opening = (
        "When a run was repeated from the same source, this many verdicts on a claim at a case changed. Fixed kernels: "
    )
    alike = text_of(trust_page(trust_of(*ALIKE))["lede"])
    assert alike.startswith(f"{opening}0 of 3 on H200. None of these went from “holds” to “does not hold”")
    turned = text_of(trust_page(trust_of(run_of("a"), run_of("b", fast=70e-6)))["lede"])
    assert turned.startswith(f"{opening}1 of 1 on H200. Over all runs ")


def test_without_a_repeat_the_table_has_no_rows() -> None:
    view = DataView(trust_of(run_of("a")))
    assert (repeatability_part(view)["table"].rows, missed_goals(view)) == ((), ())


def test_a_claim_shows_what_its_runs_say_together() -> None:
    trust = trust_of(*ALIKE)
    (together,) = pooled(ALIKE)
    item = shown(ALIKE[-1])
    said = pooled_sentence(trust, item, item.plan.claims[0], SMALL.name)
    assert text_of(said).startswith(("3 runs on 3 boards: holds, 1.49", "3 runs on 3 boards: holds, 1.50"))
    figures = figures_of(said)
    assert [figure.value for figure in figures[:2]] == [3, 3]
    assert figures[2].value == DataView(trust).value(*figures[2].source.partition("#")[2].split("/")[1:])
    assert abs(figures[2].value / together.ratio - 1) < 1e-3
    (claim,) = experiment_page(item, [], trust=pooled_of(trust, item.plan.name)).claims
    (beneath,) = [part for part in claim.rows[0].cells[2] if isinstance(part, Soft)]
    assert beneath.parts == pooled_sentence(trust, item, item.plan.claims[0], SMALL.name)
    assert all(part.source.startswith("site:trust/data.json#/") for part in figures_of(beneath.parts))


def test_runs_of_one_board_and_runs_on_another_model_are_reported_apart() -> None:
    one_board = [run_of(name, seed=number, board="one") for number, name in enumerate(("a", "b", "c"))]
    item = shown(one_board[-1])
    claim = item.plan.claims[0]
    assert " runs on 1 board: 1." in text_of(pooled_sentence(trust_of(*one_board), item, claim, SMALL.name))
    elsewhere = shown(run_of("a", gpu="NVIDIA H100 80GB HBM3"))
    assert pooled_sentence(trust_of(*one_board), elsewhere, claim, SMALL.name) == ()


def test_a_run_that_is_not_among_the_pooled_ones_shows_their_pool_with_its_date() -> None:
    trust = trust_of(*ALIKE)
    later, elsewhere = shown(run_of("later")), shown(run_of("x", gpu="NVIDIA H100 80GB HBM3"))
    claim = later.plan.claims[0]
    day = ALIKE[-1].finished_utc[:10]
    said = text_of(other_pool_sentence(trust, later, claim, SMALL.name))
    assert said.startswith(f"Apart from this run, 3 runs of one source on 3 boards, the last on {day}: holds, 1.")
    of_another = text_of(other_pool_sentence(trust, elsewhere, claim, SMALL.name))
    assert f" on 3 boards of NVIDIA H200, the last on {day}: holds, 1." in of_another
    stricter = dataclasses.replace(claim, threshold=1.4)
    assert other_pool_sentence(trust, later, stricter, SMALL.name) == ()
    assert other_pool_sentence(trust_of(*ALIKE[:2]), later, claim, SMALL.name) == ()


def test_an_experiments_page_shows_another_pool_that_comes_to_another_verdict() -> None:
    trust = trust_of(*ALIKE)

    def beneath(run: RunResult) -> list[str]:
        (claim,) = experiment_page(shown(run), [], trust=pooled_of(trust, "doubling")).claims
        told = [text_of(part.parts) for part in claim.rows[0].cells[2] if isinstance(part, Soft)]
        # beside the verdict of the claim too, in fewer words
        assert [text_of(claim.together)] == ([f"3 runs on 3 boards: {each.split(': ')[1]}" for each in told] or [""])
        return told

    (told,) = beneath(run_of("open", fast=60e-6 / 1.02))
    assert told.startswith("Apart from this run, 3 runs of one source on 3 boards")
    (told,) = beneath(run_of("slower", fast=70e-6))
    assert ": holds, 1." in told
    assert beneath(run_of("clear")) == []


def test_a_claim_of_several_cases_says_at_which_one_runs_on_three_boards_say_otherwise() -> None:
    runs = [run_of(name, seed=number, large=True) for number, name in enumerate(("a", "b", "c"))]
    (claim,) = experiment_page(
        shown(run_of("slower", fast=70e-6, large=True)), [], trust=pooled_of(trust_of(*runs), "doubling")
    ).claims
    assert text_of(claim.together).startswith("doubling 64×128 fp32: 3 runs on 3 boards: holds, 1.50")
    (claim,) = experiment_page(shown(runs[0]), [], trust=pooled_of(trust_of(*runs), "doubling")).claims
    assert claim.together == ()


def test_two_runs_and_a_run_that_is_not_among_the_pooled_ones_show_nothing() -> None:
    trust = trust_of(*ALIKE)
    later = shown(run_of("later"))
    assert pooled_sentence(trust, later, later.plan.claims[0], SMALL.name) == ()
    assert pooled_sentence(trust_of(*ALIKE[:2]), shown(ALIKE[0]), later.plan.claims[0], SMALL.name) == ()
    assert pooled_of(trust, "another-experiment") == {}
