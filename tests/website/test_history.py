"""An experiment across published runs: ratios in line, verdicts that turned, and what else had changed."""

import dataclasses
import re
from itertools import pairwise
from typing import Any

from factory import FAST_BEATS_PLAIN, LARGE, SMALL, machine, plan_of, records_of, small_experiment
from page_parts import figures

from lab.verdict.alarm import FEWEST_RUNS
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.data.verdict_log import CARD, ONLY_DATA, changes
from lab.website.pages.experiment import experiment_page
from lab.website.pages.feed_entries import history_entries
from lab.website.pages.history import history_folds
from lab.website.pages.run_links import other_models
from lab.website.table import Fold, Link, plain
from lab.website.verdict_words import verdict_counts

FASTER = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 40e-6}
SLOWER = {(SMALL.name, "plain"): 60e-6, (SMALL.name, "fast"): 70e-6}


def run_of(run_id: str, times: dict[Any, float] = FASTER, threshold: float = 1.02, **how: Any) -> Judged:
    claim = dataclasses.replace(FAST_BEATS_PLAIN, threshold=threshold, cases=(SMALL,))
    experiment = small_experiment(claims=(claim,), headlines=(claim,))
    plan = plan_of(run_id, experiments=[experiment], include=(), sweeps=how.pop("sweeps", 5))
    records = records_of(plan, times, noise=0.001, **how)
    return judged_run(judge_run(plan, records), digest=run_id.encode().hex().ljust(64, "0"))[0]


def folds_of(*runs: Judged) -> dict[str, Fold]:
    """Of the newest run."""
    return {fold.id: fold for fold in history_folds(runs[-1], runs)}


def turns_of(*runs: Judged) -> list[list[str]]:
    """The log of verdicts, newest first: before, after, run, and what else changed."""
    log = folds_of(*runs).get("verdict-log")
    return [[plain(cell) for cell in row.cells[1:]] for row in log.tables[0].rows] if log else []


def drawn(*runs: Judged) -> str:
    """The only headline's chart."""
    return "".join(picture for _, picture in folds_of(*runs)["history"].panels)


def test_the_headline_is_followed_from_run_to_run_newest_first() -> None:
    table = folds_of(run_of("one"), run_of("two"))["history"].tables[0]
    assert table.heads[-1].text.startswith("fast over plain at doubling")
    two, one = table.rows
    assert plain(two.cells[0]).startswith("2. two shown here")
    assert plain(one.cells[0]).startswith("1. one torch ")
    for row, name in ((two, "two"), (one, "one")):
        file = f"site:runs/{run_of(name).digest[:12]}/doubling/data.json"
        assert figures(row.cells[3])[0].source == f"{file}#/claims/fast-beats-plain/cases/{SMALL.name}/ratio"
    (_, link, *_) = one.cells[0]
    assert isinstance(link, Link)
    assert link.to == f"site:runs/{run_of('one').digest[:12]}/doubling/index.html"


def test_the_chart_of_many_runs_stands_on_the_face_and_of_few_in_its_fold() -> None:
    runs = [run_of(name) for name in ("one", "two", "three", "four")]
    few, many = (experiment_page(each[-1], (), history=each) for each in (runs[:3], runs))
    assert few.timeline is None
    assert few.history[0].panels
    ((name, picture),) = many.timeline.panels
    assert name.startswith("fast over plain at doubling")
    assert picture.count('class="mark"') == 4
    assert many.timeline.title == "The headlines over 4 published runs"
    assert not any(fold.panels for fold in many.history)
    assert many.history[0].tables[0].rows


def test_the_chart_holds_the_ratios_of_the_table_with_their_intervals() -> None:
    runs = run_of("one"), run_of("two", {**FASTER, (SMALL.name, "fast"): 30e-6}), run_of("three")
    picture = drawn(*runs)
    places = [(float(x), float(y)) for x, y in re.findall(r'class="mark" d="M([\d.]+) ([\d.]+)', picture)]
    assert len(places) == picture.count("whisker") == 3
    assert places == sorted(places)
    assert places[1][1] < min(places[0][1], places[2][1]), "twice as fast stands higher"
    for row in folds_of(*runs)["history"].tables[0].rows:
        (link,) = (part for part in row.cells[0] if isinstance(part, Link))
        assert f"{link.text}, fast over plain: {figures(row.cells[3])[0].text} [" in picture


def test_a_run_on_another_board_of_the_model_is_hollow_and_named() -> None:
    runs = run_of("one", on=machine(gpu_id="fedcba987654")), run_of("two"), run_of("three")
    assert drawn(*runs).count("mark hollow") == 1
    assert [plain(row.cells[2]) for row in folds_of(*runs)["history"].tables[0].rows] == ["B", "B", "A"]
    assert "hollow" not in drawn(run_of("one"), run_of("two"))


def test_a_change_that_the_next_run_confirms_stands_with_the_runs_around_it() -> None:
    quiet = [run_of(f"q{number}", seed=number) for number in range(FEWEST_RUNS + 1)]
    slower = {**FASTER, (SMALL.name, "fast"): 42e-6}
    changed = [run_of(name, slower, seed=50 + number) for number, name in enumerate(("c1", "c2"))]
    assert "alarms" not in folds_of(*quiet[:2])
    assert not folds_of(*quiet)["alarms"].tables
    assert not folds_of(*quiet, changed[0], run_of("back"))["alarms"].tables, "one run alone is no change"
    (row,) = folds_of(*quiet, *changed)["alarms"].tables[0].rows
    assert [plain(cell) for cell in row.cells[2:4]] == ["A", "slower"]
    for cell, run in zip(row.cells[4:], (quiet[-1], *changed), strict=True):
        assert plain(cell).endswith(f" {run.evidence['run_id']} 2026-01-02")
        file = f"site:runs/{run.digest[:12]}/doubling/data.json"
        assert figures(cell)[0].source == f"{file}#/claims/fast-beats-plain/cases/{SMALL.name}/ratio"
    entries = history_entries([*quiet, *changed], changes([*quiet, *changed]))
    (entry,) = entries[changed[-1].digest]
    assert entry.title.startswith("Doubling: slower than before at ")
    assert entry.summary.endswith(
        f"On board {changed[0].machine['gpu_id'][:6]}, NVIDIA H100 80GB HBM3: 1.50× in the 7 runs before, 1.43× since "
        "run c1 of 2026-01-02; run c2 confirmed it."
    )


def test_a_change_stands_at_the_head_of_the_page_until_runs_like_it_are_the_past() -> None:
    slower = {**FASTER, (SMALL.name, "fast"): 42e-6}
    quiet = [run_of(f"q{number}", seed=number) for number in range(FEWEST_RUNS + 1)]
    later = [run_of(f"c{number}", slower, seed=50 + number) for number in range(FEWEST_RUNS)]

    def changes_on_page(*runs: Judged) -> list[str]:
        return [plain(words) for words in experiment_page(runs[-1], (), history=runs).changes]

    assert changes_on_page(*quiet, later[0]) == []
    (said,) = changes_on_page(*quiet, *later[:2])
    assert re.fullmatch(
        r"Slower at .*: 1\.5\d\d× \[.*\] in q6, 1\.4\d\d× \[.*\] since c0 of 2026-01-02\. All changes", said
    )
    assert len(changes_on_page(*quiet, *later[:-1])) == 1
    assert changes_on_page(*quiet, *later) == []


def test_the_chart_follows_the_case_whose_speed_changed_and_marks_the_run() -> None:
    """Without a change it follows the case with the largest speed-up, here the other one."""
    cases = (SMALL, dataclasses.replace(LARGE, only_with=""))

    def run_at(name: str, seed: int, small: float) -> Judged:
        claim = dataclasses.replace(FAST_BEATS_PLAIN, cases=cases)
        experiment = small_experiment(cases=cases, claims=(claim,), headlines=(claim,))
        plan = plan_of(name, experiments=[experiment], include=(), sweeps=5)
        times = {(cases[1].name, "plain"): 90e-6, (cases[1].name, "fast"): 40e-6} | FASTER
        records = records_of(plan, times | {(SMALL.name, "fast"): small}, noise=0.001, seed=seed)
        return judged_run(judge_run(plan, records), digest=name.encode().hex().ljust(64, "0"))[0]

    quiet = [run_at(f"q{number}", number, 40e-6) for number in range(FEWEST_RUNS + 1)]
    changed = [run_at(f"c{number}", 50 + number, 42e-6) for number in range(2)]
    assert "4096×4096" in folds_of(*quiet)["history"].tables[0].heads[-1].text
    assert "slower" not in drawn(*quiet)
    assert "64×128" in folds_of(*quiet, *changed)["history"].tables[0].heads[-1].text
    assert drawn(*quiet, *changed).count(">slower</text>") == 1


def test_of_many_runs_few_are_numbered_and_far_apart() -> None:
    runs = [run_of(f"q{number}", seed=number) for number in range(40)]
    places = [float(x) for x in re.findall(r'<text x="([\d.]+)" y="182"', drawn(*runs))]
    assert min(after - before for before, after in pairwise(places)) >= 60
    assert ">run 40</text>" in drawn(*runs), "the newest run has its number"


def test_every_headline_has_a_chart_of_its_own() -> None:
    runs = [run_of_two(name) for name in ("one", "two")]
    panels = folds_of(*runs)["history"].panels
    assert [name.partition(" at ")[0] for name, _ in panels] == ["fast over plain", "plain over fast"]
    ids = re.findall(r' id="([^"]+)"', "".join(picture for _, picture in panels))
    assert len(ids) == len(set(ids)) == 4
    assert [picture.count("<polyline") for _, picture in panels] == [1, 1]


def run_of_two(run_id: str) -> Judged:
    """A run of two headlines."""
    faster = dataclasses.replace(FAST_BEATS_PLAIN, cases=(SMALL,))
    slower = dataclasses.replace(faster, name="plain-beats-fast", subject=faster.baseline, baseline=faster.subject)
    experiment = small_experiment(claims=(faster, slower), headlines=(faster, slower))
    plan = plan_of(run_id, experiments=[experiment], include=(), sweeps=5)
    records = records_of(plan, FASTER, noise=0.001)
    return judged_run(judge_run(plan, records), digest=run_id.encode().hex().ljust(64, "0"))[0]


def test_parity_is_drawn_only_where_lines_come_near_it() -> None:
    assert "parity" in drawn(run_of("one", {**FASTER, (SMALL.name, "fast"): 55e-6}), run_of("two"))
    assert "parity" not in drawn(run_of("one"), run_of("two"))


def test_one_run_is_a_table_and_no_chart() -> None:
    folds = folds_of(run_of("one"))
    assert list(folds) == ["history"]
    assert (folds["history"].panels, len(folds["history"].tables[0].rows)) == ((), 1)


def test_runs_on_another_gpu_are_listed_apart() -> None:
    runs = run_of("one", on=machine(gpu="NVIDIA H200")), run_of("two")
    fold = folds_of(*runs)["history"]
    assert len(fold.tables[0].rows) == 1
    (other,) = fold.items
    assert plain(other).startswith("NVIDIA H200: one of ")
    assert turns_of(*runs) == []


def test_a_verdict_that_turned_is_logged_with_what_else_had_changed() -> None:
    runs = run_of("one"), run_of("two", SLOWER, on=machine(torch="2.12.0")), run_of("three", SLOWER)
    (turn,) = turns_of(*runs)
    assert turn[:2] == ["faster", "slower"]
    assert turn[2].startswith("two")
    assert turn[3] == "torch 2.11.0 → 2.12.0. Compare the runs"
    rows = folds_of(*runs, run_of("four", SLOWER))["history"].tables[0].rows
    assert ["torch" in plain(row.cells[0]) for row in rows] == [False, True, True, True]


def test_a_claim_that_was_asked_otherwise_is_said_to_be() -> None:
    (turn,) = turns_of(run_of("one"), run_of("two", threshold=2.0))
    assert turn[3] == "the claim's threshold 1.02 → 2.0. Compare the runs"


def test_a_verdict_that_turned_by_itself_is_said_to() -> None:
    (turn,) = turns_of(run_of("one"), run_of("two", SLOWER))
    assert turn[3] == f"{ONLY_DATA}. Compare the runs"


def test_the_log_of_an_experiment_gives_the_causes_that_the_page_of_the_run_gives() -> None:
    """Card, source, versions and options: one list, so that two pages never tell two stories."""
    before = run_of("one", commit="a" * 40, source="a" * 64)
    after = run_of(
        "two", SLOWER, on=machine(gpu_id="fedcba987654", torch="2.12.0"), sweeps=7, commit="b" * 40, source="b" * 64
    )
    (turn,) = turns_of(before, after)
    (change,) = [each for each in changes([before, after]) if each.was]
    assert turn[3] == f"{change.attribution}. Compare the runs"
    for cause in (CARD, "torch 2.11.0 → 2.12.0", "Sweeps asked for 5 → 7", "git diff aaaaaaa bbbbbbb"):
        assert cause in turn[3]


def test_turns_stand_newest_first_and_back_again_is_a_turn_too() -> None:
    turns = turns_of(run_of("one"), run_of("two", SLOWER), run_of("three"))
    assert [(turn[2].split()[0], turn[1]) for turn in turns] == [("three", "faster"), ("two", "slower")]


def test_the_fullest_run_of_each_other_gpu_model_is_named_with_its_verdicts() -> None:
    few = run_of("few", SLOWER, on=machine(gpu="NVIDIA H200"), sweeps=3)
    full = run_of("full", on=machine(gpu="NVIDIA H200"))
    here = run_of("here")
    (other,) = other_models(here, (few, full, here))
    assert (other.evidence["run_id"], other.machine_name) == ("full", "NVIDIA H200")
    assert verdict_counts(other) == {"supported": 1}
