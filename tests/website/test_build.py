"""One changed experiment, run or definition: what mentions it is made again, and nothing else is loaded or made."""

import dataclasses
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from factory import FAST, FAST_BEATS_PLAIN, LARGE, PLAIN, SMALL, machine, plan_of, profile, records_of, small_experiment

from lab.evidence.record import RunFinish
from lab.verdict.judge_run import judge_run
from lab.website.data.judged import Judged, LazyJudged, judged_run, not_measured
from lab.website.outputs import Output, SiteContext
from lab.website.render import Renderer
from lab.website.site import BUILDERS, write_site
from lab.website.wording.lint import Quotable

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


def gathered_of(runs: Sequence[int], titles: dict[str, str]) -> SiteContext:
    """A site of these runs, whose experiments are called so today."""
    published = [item for number in sorted(runs) for item in run_of(number)]
    newest = {each.name: each for each in published}
    current = [_named(newest.get(name) or _unmeasured(name), title) for name, title in titles.items()]
    return SiteContext(label="", current=current, published=published, decisions=())


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
        write_site(gathered_of(sorted(runs), titles), BUILDERS, tmp_path / "site", tmp_path / "memory")
        write_site(gathered_of(sorted(runs), titles), BUILDERS, clean, tmp_path / f"nothing-{step}")
        built, wanted = tree(tmp_path / "site"), tree(clean)
        assert built.keys() == wanted.keys()
        assert [path for path in built if built[path] != wanted[path]] == []


def of_their_own(count: int) -> dict[str, Judged]:
    """Experiments that share no profile."""
    experiments = []
    for number in range(count):
        plain, fast = profile(f"plain-{number}"), profile(f"fast-{number}")
        claim = dataclasses.replace(FAST_BEATS_PLAIN, subject=fast, baseline=plain, cases=(SMALL,))
        definition = small_experiment(cases=(SMALL,), profiles=(plain, fast), claims=(claim,), headlines=(claim,))
        experiments.append(dataclasses.replace(definition, name=f"x-{number}", title=f"Number {number}"))
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

    def stored(item: Judged) -> LazyJudged:
        def load() -> Judged:
            loaded.add(item.name)
            return item

        known = {"finished_utc": item.finished_utc, "fullness": item.fullness, "cites": item.cites}
        return LazyJudged(load, name=item.name, key=item.key, **known)

    def build() -> set[str]:
        loaded.clear()
        made.clear()
        current = [stored(item) for item in items.values()]
        context = SiteContext(label="", current=current, published=(), decisions=())
        write_site(context, BUILDERS, tmp_path / "site", tmp_path / "memory")
        return {path.rpartition("/index.html")[0] or path for path in made if path.endswith(".html")}

    monkeypatch.setattr(Renderer, "file", noted)
    assert len(build()) > 20
    assert build() == loaded == set()
    items["x-3"] = _named(items["x-3"], "Another title")
    made_again = build()
    assert all(path.startswith("experiments/x-3") for path in made_again if path.startswith("experiments/"))
    assert loaded == {"x-3"}


def test_a_page_of_an_experiment_quotes_no_other(tmp_path: Path, monkeypatch) -> None:
    items = of_their_own(2)
    items["x-1"] = _named(items["x-1"], "Faster by 5 %")
    left: dict[str, str] = {}
    make = Renderer.file

    def noted(self: Renderer, output: Output, quotable: Quotable) -> tuple[str, bytes]:
        left[output.path] = quotable.without("Faster by 5 %").strip()
        return make(self, output, quotable)

    monkeypatch.setattr(Renderer, "file", noted)
    context = SiteContext(label="", current=list(items.values()), published=(), decisions=())
    write_site(context, BUILDERS, tmp_path / "site", tmp_path / "memory")
    pages = ("experiments/x-0/index.html", "experiments/x-1/index.html", "index.html")
    assert [left[page] for page in pages] == ["Faster by 5 %", "", ""]


def test_by_other_code_every_file_is_made_again(tmp_path: Path, monkeypatch) -> None:
    """Files that are no pages too: what nobody sees is shown in them, references become words."""
    made: list[str] = []
    make = Renderer.file

    def noted(self: Renderer, output: Output, quotable: Quotable) -> tuple[str, bytes]:
        made.append(output.path)
        return make(self, output, quotable)

    def build() -> set[str]:
        made.clear()
        write_site(gathered_of([0], {"one": "One"}), BUILDERS, tmp_path / "site", tmp_path / "memory")
        return set(made)

    monkeypatch.setattr(Renderer, "file", noted)
    everything = build()
    assert build() == set()
    monkeypatch.setattr("lab.website.build.digest_of", lambda *places: "of other code")
    assert build() == everything > {"index.html", "feed.atom", "data.json", "runs/runs.csv"}
