"""One changed experiment, run or definition: what mentions it is made again, and nothing else is loaded or made."""

import dataclasses
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from factory import FAST, FAST_BEATS_PLAIN, LARGE, PLAIN, SMALL, machine, plan_of, profile, records_of, small_experiment

from lab.evidence.record import RunFinish
from lab.verdict.results import judge_run
from lab.website.data.judged import Judged, judged_run, not_measured
from lab.website.data.shelf import Held, held
from lab.website.outputs import Document, Gathered, Output
from lab.website.parts import Parts
from lab.website.render import Renderer
from lab.website.site import ROOMS, write_site
from lab.website.wording.quoted import Quotable

GPUS = ("NVIDIA H100 80GB HBM3", "NVIDIA A10G")
NAMES = ("one", "two", "three")


@cache
def run_of(number: int) -> tuple[Judged, ...]:
    """Some of the experiments, on one of two GPUs; every third run finds the claims refuted."""
    dice = random.Random(number)
    experiments = [
        dataclasses.replace(small_experiment(profiles=(PLAIN, FAST, profile(f"of-{name}"))), name=name, title=name)
        for name in sorted(dice.sample(NAMES, 2))
    ]
    plan = plan_of(f"run-{number}", experiments=experiments, include=("large-sweep",), sweeps=5)
    fast = (70e-6 if number % 3 == 2 else 40e-6) * (1 + number / 1000)
    times = {(case.name, name): fast if name == "fast" else 60e-6 for case in (SMALL, LARGE) for name in
             ("plain", "fast", *(f"of-{name}" for name in NAMES))}  # fmt: skip
    records = [
        dataclasses.replace(record, finished_utc=f"2026-01-{number + 1:02}T03:30:00Z")
        if isinstance(record, RunFinish) else record
        for record in records_of(plan, times, noise=0.001, on=machine(gpu=GPUS[number % 2]))
    ]  # fmt: skip
    return judged_run(judge_run(plan, records), digest=f"{number:02}".encode().hex().ljust(64, "0"))


def parts_of(runs: Sequence[int], titles: dict[str, str]) -> Parts:
    """A site of these runs, whose experiments are called so today."""
    published = [held(item) for number in sorted(runs) for item in run_of(number)]
    newest = {each.name: each.load() for each in published}
    current = [held(_named(newest.get(name) or _unmeasured(name), title)) for name, title in titles.items()]
    return Parts(Gathered(label="", current=(), published=(), decisions=()), ROOMS, current, published)


def _named(item: Judged, title: str) -> Judged:
    return dataclasses.replace(item, plan=dataclasses.replace(item.plan, title=title))


def _unmeasured(name: str) -> Judged:
    return not_measured(plan_of(experiments=[dataclasses.replace(small_experiment(), name=name)]).experiments[0])


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("seed", range(2))
def test_after_any_edits_the_site_is_that_of_a_clean_build(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    runs: set[int] = set()
    titles = {name: name for name in NAMES}
    for step in range(6):
        what = dice.random()
        if what < 0.6:
            runs.add(dice.randrange(8))
        elif what < 0.75 and runs:
            runs.remove(dice.choice(sorted(runs)))
        elif what < 0.9:
            titles[dice.choice(sorted(titles))] = f"Title {step}"
        else:
            titles = {name: name for name in dice.sample(NAMES, dice.randrange(1, 4))}
        clean = tmp_path / f"clean-{step}"
        write_site(parts_of(sorted(runs), titles), tmp_path / "site", tmp_path / "memory")
        write_site(parts_of(sorted(runs), titles), clean, tmp_path / f"nothing-{step}")
        found, wanted = tree(tmp_path / "site"), tree(clean)
        assert found.keys() == wanted.keys()
        assert [path for path in found if found[path] != wanted[path]] == []


def of_their_own(count: int) -> dict[str, Judged]:
    """Experiments that share no profile."""
    experiments = []
    for number in range(count):
        plain, fast = profile(f"plain-{number}"), profile(f"fast-{number}")
        claim = dataclasses.replace(FAST_BEATS_PLAIN, subject=fast, baseline=plain, cases=(SMALL,))
        found = small_experiment(cases=(SMALL,), profiles=(plain, fast), claims=(claim,), headlines=(claim,))
        experiments.append(dataclasses.replace(found, name=f"x-{number}", title=f"Number {number}"))
    plan = plan_of(experiments=experiments)
    times = {p.name: 40e-6 if p.name.startswith("fast") else 60e-6 for x in experiments for p in x.profiles}
    return {item.plan.name: item for item in judged_run(judge_run(plan, records_of(plan, times)), "ab" * 32)}


def test_only_what_mentions_a_changed_experiment_is_loaded_and_made(tmp_path: Path, monkeypatch) -> None:
    items = of_their_own(6)
    loaded: set[str] = set()
    made: list[str] = []
    make = Renderer.file

    def noted(self: Renderer, output: Output, quotable: Quotable) -> tuple[str, bytes]:
        made.append(output.path)
        return make(self, output, quotable)

    def on_shelf(item: Judged) -> Held:
        def load() -> Judged:
            loaded.add(item.plan.name)
            return item

        return dataclasses.replace(held(item), load=load)

    def build() -> set[str]:
        loaded.clear()
        made.clear()
        gathered = Gathered(label="", current=(), published=(), decisions=())
        parts = Parts(gathered, ROOMS, [on_shelf(item) for item in items.values()], ())
        write_site(parts, tmp_path / "site", tmp_path / "memory")
        return {path.rpartition("/index.html")[0] or path for path in made if path.endswith(".html")}

    monkeypatch.setattr(Renderer, "file", noted)
    assert len(build()) > 30
    assert build() == loaded == set()
    items["x-3"] = _named(items["x-3"], "Another title")
    assert {path for path in build() if not path.startswith("experiments/x-3")} == {
        "index.html", "search/experiments", "search/claims", "search/cases", "profiles/plain-3", "profiles/fast-3",
        "methods",
    }  # fmt: skip
    assert loaded == {"x-3"}


def test_by_other_code_every_file_is_made_again(tmp_path: Path, monkeypatch) -> None:
    """Files that are no pages too: what nobody sees is shown in them, references become words."""
    made: list[str] = []
    make = Renderer.file

    def noted(self: Renderer, output: Output, quotable: Quotable) -> tuple[str, bytes]:
        made.append(output.path)
        return make(self, output, quotable)

    def build() -> set[str]:
        made.clear()
        write_site(parts_of([0], {"one": "One"}), tmp_path / "site", tmp_path / "memory")
        return set(made)

    monkeypatch.setattr(Renderer, "file", noted)
    everything = build()
    assert build() == set()
    monkeypatch.setattr("lab.website.parts.digest_of", lambda *places: "of other code")
    assert build() == everything > {"index.html", "feed.atom", "data.json", "runs/runs.csv"}


def test_what_a_page_shows_can_be_told_from_what_it_showed_before() -> None:
    """The key of a page is made of the words that its view is written in: none may be an address in memory."""
    items = tuple(of_their_own(2).values())
    gathered = Gathered(label="", current=items, published=items, decisions=())
    shown = [output for room in ROOMS.of_all for output in room(gathered) if isinstance(output, Document)]
    assert [page.path for page in shown if " at 0x" in repr(page.view)] == []
