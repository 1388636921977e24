"""How the lab's kernels stand at shapes of public models: the fullest run of `lab zoo`, counted and drawn."""

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from factory import machine, plan_of, publish, records_of, write_run
from few_experiments import only
from test_site import Page

from lab.definition.catalogue import choose_experiments
from lab.definition.plan import Protocol
from lab.evidence.machine import Machine
from lab.evidence.record import Cell, RunFinish
from lab.website.pages.zoo import ratio
from lab.website.site import build_site

SOFTMAX, RMSNORM = choose_experiments(["zoo-softmax-4", "zoo-rmsnorm-4"])
LOST, CLOSE, *WON = [case.name for case in SOFTMAX.cases]
TIMES = {
    **{(case.name, name): 12e-6 for case in (*SOFTMAX.cases, *RMSNORM.cases) for name in ("torch-fused", "quack")},
    **{(case.name, "lab"): 10e-6 for case in (*SOFTMAX.cases, *RMSNORM.cases)},
    (LOST, "quack"): 8e-6, (CLOSE, "quack"): 9.9e-6,
}  # fmt: skip
SCREENING = Protocol(block=6)
UNEVEN, LATE = WON[0], 2  # a case that the sweeps from the third on measure without QuACK


def published(folder: Path, run_id: str, on: Machine | None = None, **how: object) -> None:
    plan = plan_of(run_id, experiments=[SOFTMAX, RMSNORM], include=(), **how)
    publish(folder / "evidence", write_run(folder / run_id, plan, records_of(plan, TIMES, noise=0.0001, on=on)))


def published_broken_off(folder: Path) -> None:
    """The last sweep has measured one case and not the other, and QuACK took no part in the later sweeps of another,
    in which all were slow."""
    plan = plan_of("broken-off", experiments=[SOFTMAX, RMSNORM], include=(), protocol=SCREENING)
    slow = TIMES | {(UNEVEN, "lab"): 20e-6, (UNEVEN, "torch-fused"): 24e-6}
    both = (records_of(plan, times, noise=0.0001, on=machine(gpu="NVIDIA H200")) for times in (TIMES, slow))
    records = [
        dataclasses.replace(each, cut_short="no time was left") if isinstance(each, RunFinish) else each
        for early, late in zip(*both, strict=True)
        for each in [late if getattr(late, "sweep", 0) >= LATE else early]
        if not (isinstance(each, Cell) and _is_left_out(each))
    ]
    publish(folder / "evidence", write_run(folder / "broken-off", plan, records))


def _is_left_out(cell: Cell) -> bool:
    return (cell.sweep >= LATE and (cell.case, cell.profile) == (UNEVEN, "quack")) or (
        cell.sweep == SCREENING.sweeps - 1 and cell.case == LOST
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo")
    published(folder, "tour")
    published(folder, "tour-close", cases={SOFTMAX.name: [LOST], RMSNORM.name: []})  # newer, but not whole
    published_broken_off(folder)
    (folder / "decisions").mkdir()
    with only(("gpu-ceilings",)):
        build_site(folder / "site", folder / "decisions", folder / "evidence", remembered=folder / "remembered")
    return folder / "site"


def test_the_data_count_shapes_that_are_level_or_ahead(site: Path) -> None:
    gpus = json.loads((site / "zoo" / "data.json").read_text())["gpus"]
    assert {gpu: list(each["runs"]) for gpu, each in gpus.items()} == {
        "NVIDIA H100 80GB HBM3": ["tour"],
        "NVIDIA H200": ["broken-off"],
    }
    run = gpus["NVIDIA H100 80GB HBM3"]
    cold = run["scopes"]["device_cold"]
    assert run["shapes"] == 8
    assert (cold["all"]["cases"], cold["all"]["level_cases"]) == (8, 7)
    assert (cold["operators"]["softmax"]["level_cases"], cold["operators"]["rmsnorm"]["level_cases"]) == (3, 4)
    assert (cold["rivals"]["quack"]["level_cases"], cold["rivals"]["torch-fused"]["level_cases"]) == (7, 8)
    assert list(cold["cases"])[:2] == [LOST, CLOSE]
    assert cold["cases"][LOST]["rival"] == "quack"
    assert cold["cases"][LOST]["ratio"] == pytest.approx(0.8, rel=0.02)


def test_a_rival_is_compared_over_the_sweeps_that_measured_both(site: Path) -> None:
    """The lab's kernel is 1.2 times as fast as each rival in every sweep, though its median is slower than QuACK's."""
    uneven = json.loads((site / "zoo" / "data.json").read_text())["gpus"]["NVIDIA H200"]["scopes"]["graph"]
    assert uneven["cases"][UNEVEN]["ratio"] == pytest.approx(1.2, rel=0.02)
    assert uneven["rivals"]["quack"]["level_cases"] == 7


def test_the_page_says_it_draws_it_and_lists_the_worst_first(site: Path) -> None:
    page = Page(site / "zoo" / "index.html")
    assert "level with the best rival or ahead at 7 of 8 shapes, with nothing cached at 7 of 8." in page.text
    assert "find it level with every rival at 3 and 3." in page.text
    assert "is missed with nothing cached and in CUDA graphs;" in page.text
    assert "--experiment zoo-softmax-4 zoo-rmsnorm-4 --sweeps 5" in page.text
    assert "lab zoo softmax rmsnorm --sample 4 --sweeps 5" in page.text
    assert page.text.count("A screening takes fewer samples") == 1  # of one GPU
    assert len(page.ids) == len(set(page.ids))
    assert "5 processes, commit ccccccc." in page.text
    assert "a screening in 4 to 5 processes, commit ccccccc; the run was cut short." in page.text
    assert page.text.count("cut short") == 1
    drawn = (site / "zoo" / "index.html").read_text()
    assert drawn.count("<circle") == 2 * 2 * 8
    assert "3 of 4" in drawn
    with (site / "zoo" / "shapes.csv").open(newline="") as file:
        first, *_ = rows = list(csv.DictReader(file))
    assert (len(rows), first["case"], first["scope"]) == (32, LOST, "device_cold")
    assert "zoo/index.html" in (site / "index.html").read_text()


def test_of_runs_at_as_many_shapes_the_newest_is_shown_though_a_rival_took_less_part(tmp_path: Path) -> None:
    published(tmp_path, "older")
    plan = plan_of("newer", experiments=[SOFTMAX, RMSNORM], include=())
    without = {who: seconds for who, seconds in TIMES.items() if who != (LOST, "quack")}
    records = [
        dataclasses.replace(each, finished_utc="2026-01-03T03:30:00Z") if isinstance(each, RunFinish) else each
        for each in records_of(plan, without, noise=0.0001)
    ]
    publish(tmp_path / "evidence", write_run(tmp_path / "newer", plan, records))
    shown = _built(tmp_path)
    assert (list(shown["runs"]), shown["shapes"]) == (["newer"], 8)


def test_an_operator_that_was_measured_again_alone_takes_its_place_among_the_others(tmp_path: Path) -> None:
    published(tmp_path, "all")
    plan = plan_of("again", experiments=[RMSNORM], include=())
    faster = {who: seconds / 2 if who[1] == "lab" else seconds for who, seconds in TIMES.items()}
    records = [
        dataclasses.replace(each, finished_utc="2026-01-03T03:30:00Z") if isinstance(each, RunFinish) else each
        for each in records_of(plan, faster, noise=0.0001)
    ]
    publish(tmp_path / "evidence", write_run(tmp_path / "again", plan, records))
    shown = _built(tmp_path)
    assert {run: each["operators"] for run, each in shown["runs"].items()} == {"again": ["rmsnorm"], "all": ["softmax"]}
    cold = shown["scopes"]["device_cold"]
    assert cold["operators"]["rmsnorm"]["median"] == pytest.approx(2.4, rel=0.02)
    assert (cold["all"]["cases"], cold["operators"]["softmax"]["level_cases"]) == (8, 3)
    text = Page(tmp_path / "site" / "zoo" / "index.html").text
    assert "Run again of 2026-01-03, 5 processes, commit ccccccc: RMSNorm." in text
    assert "--experiment zoo-rmsnorm-4 --sweeps 5\n./scripts/benchmark" in text
    assert "--experiment zoo-softmax-4 --sweeps 5" in text


def _built(folder: Path) -> dict[str, Any]:
    """What the zoo's page shows of the only GPU."""
    (folder / "decisions").mkdir()
    with only(("gpu-ceilings",)):
        build_site(folder / "site", folder / "decisions", folder / "evidence", remembered=folder / "kept")
    (shown,) = json.loads((folder / "site" / "zoo" / "data.json").read_text())["gpus"].values()
    return dict(shown)


def test_a_ratio_just_below_the_level_does_not_read_as_on_it() -> None:
    assert [ratio(value) for value in (0.9798787, 0.98, 0.9804754, 0.8)] == ["0.9799×", "0.980×", "0.9805×", "0.800×"]


def test_a_site_without_such_a_run_has_no_such_page(tmp_path: Path) -> None:
    (tmp_path / "decisions").mkdir()
    (tmp_path / "evidence").mkdir()
    with only(("gpu-ceilings",)):
        build_site(tmp_path / "site", tmp_path / "decisions", tmp_path / "evidence", remembered=tmp_path / "kept")
    assert not (tmp_path / "site" / "zoo").exists()
    assert "zoo/" not in (tmp_path / "site" / "index.html").read_text()
