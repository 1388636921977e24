"""How the lab's kernels stand at shapes of public models: the fullest run of `lab zoo`, counted and drawn."""

import copy
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
from lab.definition.plan import Plan, Protocol
from lab.evidence.machine import Machine
from lab.evidence.record import Cell, Record, RunFinish
from lab.verdict.judge import Status
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, judged_run
from lab.website.data.zoo_runs import parts_of
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
    assert "level with the best rival or ahead at 7 of 8 shapes, with a cold cache at 7 of 8." in page.text
    assert (
        "find it at its bar against every rival at 3 of 8 shapes in graphs and 3 of 8 with a cold cache." in page.text
    )
    assert "is missed by Softmax with a cold cache and in CUDA graphs." in page.text
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


CLOSER = {(LOST, "quack"): 10.5e-6, (CLOSE, "quack"): 9.5e-6}
LATER = "2026-01-03T03:30:00Z"


def _run(run_id: str, times: dict[Any, float], finished: str, **how: Any) -> tuple[Plan, list[Record]]:
    """Of all shapes of softmax, or of the `cases` named."""
    source, on = how.pop("source", "a" * 64), how.pop("on", None)
    plan = plan_of(run_id, experiments=[SOFTMAX], include=(), **how)
    return plan, [
        dataclasses.replace(each, finished_utc=finished) if isinstance(each, RunFinish) else each
        for each in records_of(plan, TIMES | times, noise=0.0001, source=source, on=on)
    ]


def _published(folder: Path, run_id: str, times: dict[Any, float], finished: str, **how: Any) -> None:
    publish(folder / "evidence", write_run(folder / run_id, *_run(run_id, times, finished, **how)))


def _judged(run_id: str, times: dict[Any, float], finished: str, **how: Any) -> Judged:
    (item,) = judged_run(judge_run(*_run(run_id, times, finished, **how)), digest=run_id.encode().hex().ljust(64, "0"))
    return item


def test_shapes_that_earlier_kernels_were_measured_at_are_counted(tmp_path: Path) -> None:
    _published(tmp_path, "early", {}, "2026-01-02T04:00:00Z", source="b" * 64, cases={SOFTMAX.name: [LOST, CLOSE]})
    _published(tmp_path, "tour", {}, LATER)
    assert _built(tmp_path)["tried"] == 2
    text = Page(tmp_path / "site" / "zoo" / "index.html").text
    assert "earlier kernels were measured at 2 of these 4 shapes, and kernels and their rules were changed" in text
    same = [_judged(run_id, {}, finished) for run_id, finished in (("early", "2026-01-02T04:00:00Z"), ("tour", LATER))]
    assert parts_of(same)[0].tried == frozenset(), "a repeat of one source looks at no other kernel"


def test_a_shape_that_was_measured_again_by_the_usual_protocol_stands_as_in_that_run(tmp_path: Path) -> None:
    """The second run has two of the four shapes: one that it finds better than the screening did, and one worse."""
    _published(tmp_path, "tour", {}, "2026-01-02T04:00:00Z", protocol=SCREENING)
    _published(tmp_path, "tour-close", CLOSER, LATER, cases={SOFTMAX.name: [LOST, CLOSE]}, sweeps=7)
    shown = _built(tmp_path)
    assert {name: (run["shapes"], run["operators"]) for name, run in shown["runs"].items()} == {
        "tour-close": (2, ["softmax"]), "tour": (2, ["softmax"]),
    }  # fmt: skip
    assert (shown["shapes"], shown["measured_again"]) == (4, 2)
    for scope in shown["scopes"].values():
        ratios = {case: each["ratio"] for case, each in scope["cases"].items()}
        assert ratios == pytest.approx({LOST: 1.05, CLOSE: 0.95} | dict.fromkeys(WON, 1.2), rel=0.02)
        assert {case: each["run"] for case, each in scope["cases"].items()} == {
            LOST: "tour-close", CLOSE: "tour-close", **dict.fromkeys(WON, "tour"),
        }  # fmt: skip
        assert (scope["all"]["cases"], scope["all"]["level_cases"]) == (4, 3)
        assert scope["operators"]["softmax"]["smallest"] == pytest.approx(0.95, rel=0.02)
        assert scope["rivals"]["quack"]["smallest"] == pytest.approx(0.95, rel=0.02)
    assert shown["scopes"]["device_cold"]["proven"] == 1, "by the second run: the screening alone proves nothing there"
    page = Page(tmp_path / "site" / "zoo" / "index.html")
    assert (
        "Of the 4 shapes, 2 were measured again later, from the same source and with the usual number of samples: "
        "their times here are those of tour-close." in page.text
    )
    assert f"../runs/{shown['runs']['tour-close']['digest'][:12]}/index.html" in page.links
    assert (
        "The times of tour were taken while the host went on enqueuing, so that each call reads about half a "
        "microsecond longer." in page.text
    )
    assert "may lie on its other side where it was not measured again." in page.text
    assert "lab zoo softmax --sample 4 --sweeps 5 --run-id <run-id> --decide 7" in page.text
    assert "./scripts/benchmark" not in page.text
    with (tmp_path / "site" / "zoo" / "shapes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["run"] for row in rows if row["case"] in (LOST, CLOSE)} == {"tour-close"}
    assert {row["run"] for row in rows if row["case"] in WON} == {"tour"}


@pytest.mark.parametrize(
    ("finished", "how"),
    [
        (LATER, {"source": "b" * 64}),
        (LATER, {"protocol": SCREENING}),
        ("2026-01-01T03:30:00Z", {}),
    ],
    ids=["another source", "another screening", "an older run"],
)
def test_only_a_later_run_of_the_source_by_the_usual_protocol_stands_for_a_shape(
    finished: str, how: dict[str, Any]
) -> None:
    tour = _judged("tour", {}, "2026-01-02T04:00:00Z", protocol=SCREENING)
    other = _judged("other", CLOSER, finished, cases={SOFTMAX.name: [LOST]}, **how)
    assert [(part.item, len(part.cases), part.again) for part in parts_of([other, tour])] == [(tour, 4, False)]


def test_too_few_sweeps_for_a_verdict_still_say_how_fast_a_shape_is() -> None:
    full = _judged("full", {}, "2026-01-02T04:00:00Z", protocol=SCREENING)
    newer = _judged("newer", {}, LATER, protocol=SCREENING)
    data = copy.deepcopy(newer.data)
    for claim in data["claims"].values():
        claim["cases"][LOST]["status"] = Status.NO_EVIDENCE.value
    newer = dataclasses.replace(newer, data=data)
    assert [(part.run_id, len(part.cases)) for part in parts_of([full, newer])] == [("newer", 4)]


def test_of_several_runs_that_measured_a_shape_again_the_last_stands_for_it() -> None:
    tour = _judged("tour", {}, "2026-01-02T04:00:00Z", protocol=SCREENING)
    first = _judged("first", CLOSER, LATER, cases={SOFTMAX.name: [LOST, CLOSE]})
    last = _judged("last", CLOSER, "2026-01-04T03:30:00Z", cases={SOFTMAX.name: [LOST]})
    parts = parts_of([last, tour, first])
    assert {part.run_id: [case.name for case in part.cases] for part in parts} == {
        "tour": WON, "first": [CLOSE], "last": [LOST],
    }  # fmt: skip


def test_a_run_on_another_gpu_stands_for_no_shape_of_this_one(tmp_path: Path) -> None:
    _published(tmp_path, "tour", {}, "2026-01-02T04:00:00Z", protocol=SCREENING)
    h200 = machine(gpu="NVIDIA H200")
    _published(tmp_path, "tour-close", CLOSER, LATER, cases={SOFTMAX.name: [LOST]}, on=h200)
    assert {gpu: each["measured_again"] for gpu, each in _gpus(tmp_path).items()} == {
        "NVIDIA H100 80GB HBM3": 0, "NVIDIA H200": 0,
    }  # fmt: skip


def _gpus(folder: Path) -> dict[str, Any]:
    """What the zoo's page shows of each GPU."""
    (folder / "decisions").mkdir()
    with only(("gpu-ceilings",)):
        build_site(folder / "site", folder / "decisions", folder / "evidence", remembered=folder / "kept")
    return dict(json.loads((folder / "site" / "zoo" / "data.json").read_text())["gpus"])


def _built(folder: Path) -> dict[str, Any]:
    """What it shows of the only one."""
    (shown,) = _gpus(folder).values()
    return dict(shown)


def test_a_ratio_just_below_the_level_does_not_read_as_on_it() -> None:
    show = ratio([0.98, 0.9])
    assert [*map(show, (0.9798787, 0.98, 0.9804754, 0.8))] == ["0.9799×", "0.980×", "0.9805×", "0.800×"]
    assert [*map(show, (0.8998, 0.9, 0.9504))] == ["0.8998×", "0.900×", "0.950×"]
    assert ratio([])(0.8998) == "0.900×"
    assert ratio([])(0.9798787) == "0.9799×", "what is level is told apart everywhere"


def test_each_operator_has_a_bar_of_its_own_and_level_is_the_same_for_all(tmp_path: Path) -> None:
    (products,) = choose_experiments(["zoo-matmul-4"])
    behind = {(case.name, "torch-matmul"): 9.3e-6 for case in products.cases}
    ours = {(case.name, "lab"): 10e-6 for case in products.cases}
    plan = plan_of("tour", experiments=[SOFTMAX, products], include=(), protocol=SCREENING)
    publish(
        tmp_path / "evidence", write_run(tmp_path / "tour", plan, records_of(plan, TIMES | ours | behind, noise=0.0001))
    )
    shown = _built(tmp_path)
    assert shown["bars"] == {"softmax": 0.98, "gemm": 0.9}
    for scope in shown["scopes"].values():
        bars = {case: each["bar"] for case, each in scope["cases"].items()}
        assert bars == {case.name: 0.98 for case in SOFTMAX.cases} | {case.name: 0.9 for case in products.cases}
        assert {name: each["level_cases"] for name, each in scope["operators"].items()} == {"softmax": 3, "gemm": 0}
        assert {name: each["bar_cases"] for name, each in scope["operators"].items()} == {"softmax": 3, "gemm": 4}
        assert [scope["rivals"]["torch-matmul"][name] for name in ("level_cases", "bar_cases")] == [0, 4]
        assert [scope["all"][name] for name in ("level_cases", "bar_cases", "cases")] == [3, 7, 8]
        assert scope["by_bar"] == {
            "0.98": {"cases": 4, "level_cases": 3, "bar_cases": 3},
            "0.9": {"cases": 4, "level_cases": 0, "bar_cases": 4},
        }
    assert shown["wrong"] == []
    text = Page(tmp_path / "site" / "zoo" / "index.html").text
    assert "our result was wrong by the check" not in text
    assert "“level” is 0.98 or more. An operator's bar, the ratio that it is asked for, is 0.98 (Matmul: 0.9)." in text
    assert (
        "at 3 of 4 shapes of other operators than Matmul, with a cold cache at 3 of 4. Matmul is so at 0 of 4 in "
        "graphs and 0 of 4 with a cold cache, and reaches its own, lower bar of 0.9 at 4 of 4 and 4 of 4." in text
    )
    assert "a ratio near the bar may lie on its other side." in text
    assert text.count("At its bar") == 4, "in the tables by operator and by rival"
    drawn = (tmp_path / "site" / "zoo" / "index.html").read_text().partition("<h3>")[0]
    assert drawn.count(">0 of 4<") == 2, "a product that takes a tenth longer is not drawn as level"
    assert "lab zoo softmax matmul --sample 4 --sweeps 5" in text


def test_a_shape_where_our_result_was_wrong_is_named(tmp_path: Path) -> None:
    plan = plan_of("tour", experiments=[SOFTMAX], include=(), protocol=SCREENING)
    wrong = {(LOST, "lab"): ("wrong", "the error is 4 times the tolerance")}
    records = records_of(plan, TIMES, noise=0.0001, outcomes=wrong)
    publish(tmp_path / "evidence", write_run(tmp_path / "tour", plan, records))
    shown = _built(tmp_path)
    assert shown["wrong"] == [LOST]
    for scope in shown["scopes"].values():
        assert LOST not in scope["cases"]
        assert (scope["all"]["cases"], scope["all"]["level_cases"]) == (4, 3)
        assert scope["rivals"]["quack"]["cases"] == scope["operators"]["softmax"]["cases"] == 4
    text = Page(tmp_path / "site" / "zoo" / "index.html").text
    (lost,) = (case for case in SOFTMAX.cases if case.name == LOST)
    assert f"wrong by the check: Softmax {'×'.join(map(str, lost.shape))} " in text


def test_a_site_without_such_a_run_has_no_such_page(tmp_path: Path) -> None:
    (tmp_path / "decisions").mkdir()
    (tmp_path / "evidence").mkdir()
    with only(("gpu-ceilings",)):
        build_site(tmp_path / "site", tmp_path / "decisions", tmp_path / "evidence", remembered=tmp_path / "kept")
    assert not (tmp_path / "site" / "zoo").exists()
    assert "zoo/" not in (tmp_path / "site" / "index.html").read_text()


def test_a_script_has_every_shape_in_each_scope_with_its_place_in_the_data(site: Path) -> None:
    text = (site / "zoo" / "shapes.js").read_text(encoding="utf-8")
    held = json.loads(text.removeprefix("window.kernelEvidenceTried = ").removesuffix(";\n"))
    rows = [dict(zip(held["columns"], row, strict=True)) for row in held["rows"]]
    data = json.loads((site / "zoo" / "data.json").read_text())["gpus"]
    told = {f"/gpus/{gpu}/scopes/{scope}/cases/{case}/"
            for gpu, run in data.items() for scope, of in run["scopes"].items() for case in of["cases"]}  # fmt: skip
    assert {row["at"] for row in rows} == told
    assert len(rows) == len(told)
    assert {row["screened"] for row in rows if row["gpu"] == "H200"} == {True}
    assert {row["screened"] for row in rows if row["gpu"] == "H100"} == {False}
    (lost,) = [row for row in rows if row["at"].endswith(f"H100 80GB HBM3/scopes/device_cold/cases/{LOST}/")]
    assert (lost["title"], lost["rival"], lost["ratio"][:3]) == ("Softmax", "QuACK", "0.8")
    assert all((site / row["page"]).is_file() for row in rows)
    assert "../zoo/shapes.js" in (site / "search" / "index.html").read_text()
