"""README and docs say what is there: files, options, kernels, commands, and examples that run."""

import importlib
import math
import re
from typing import Any

import pytest
import torch

from lab.cli import parser
from lab.definition.catalogue import load_experiments
from lab.definition.claim_words import claim_sentence
from lab.definition.experiment import Experiment
from lab.definition.planning import make_plan, planned
from lab.evidence.source import ROOT
from lab.verdict.judge import MARKS, POLICY_VERSION
from lab.website.pages.policy import policy_page

DOCUMENTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md")} | {
    f"docs/{path.name}": path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")
}
README, OPTIONS = DOCUMENTS["README.md"], DOCUMENTS["docs/options.md"]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def subcommand(name: str) -> Any:
    (commands,) = [action for action in parser()._actions if action.choices]
    return commands.choices[name]


def options_of(name: str) -> set[str]:
    return {o for action in subcommand(name)._actions for o in action.option_strings} - {"-h", "--help"}


def code_of(text: str, language: str) -> str:
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(block)


@pytest.fixture(scope="module")
def example() -> Experiment:
    """The experiment of docs/authoring.md."""
    names: dict[str, Any] = {}
    exec(compile(code_of(DOCUMENTS["docs/authoring.md"], "python"), "docs/authoring.md", "exec"), names)
    (experiment,) = [value for value in names.values() if isinstance(value, Experiment)]
    return experiment


def test_the_map_lists_exactly_the_rooms_of_the_lab() -> None:
    described_whole = {"tracking", "kernels", "pages", "charts", "audit", "data", "wording", "files", "verification"}
    rooms = []
    for path in (ROOT / "lab").rglob("*"):
        inside = set(path.relative_to(ROOT / "lab").parts[:-1])
        if path.name in ("__pycache__", "__init__.py") or inside & (described_whole | {"__pycache__"}):
            continue
        rooms.append(f"{path.name}/" if path.is_dir() else path.name)
    listed = re.findall(r"^\| (?:\*\*)?`([\w/.]+)`(?:\*\*)? \|", DOCUMENTS["docs/map.md"], re.MULTILINE)
    assert sorted(listed) == sorted(rooms)


@pytest.mark.parametrize("script", ["benchmark", "publish", "ui", "test"])
def test_the_four_scripts_stand_in_the_readme_and_can_be_run(script: str) -> None:
    assert f"./scripts/{script}" in README
    assert (ROOT / "scripts" / script).stat().st_mode & 0o111


@pytest.mark.parametrize("name", ["benchmark", "tune", "zoo"])
def test_every_option_of_the_main_jobs_is_described(name: str) -> None:
    section = OPTIONS[OPTIONS.index(f"\n## {name}\n") :].partition("\n## ")[2].partition("\n## ")[0]
    described = set(re.findall(r"^\| `(--[\w-]+)", section, re.MULTILINE))
    assert described == options_of(name)


def test_every_subcommand_is_described() -> None:
    (commands,) = [action for action in parser()._actions if action.choices]
    described = set(re.findall(r"^\| `lab ([a-z]+)", OPTIONS, re.MULTILINE))
    assert described | {"benchmark"} == set(commands.choices)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_to_a_file_and_its_heading(document: str) -> None:
    for link in LINK.findall(DOCUMENTS[document]):
        path, _, heading = link.partition("#")
        target = (ROOT / document).parent / path
        assert target.is_file(), link
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        assert not heading or heading in [title.lower().replace(" ", "-") for title in headings], link


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_of_the_lab_is_one_that_it_accepts(document: str) -> None:
    text = DOCUMENTS[document]
    for line in re.findall(r"(?:^ {4}| && |`)(?:\.venv/bin/)?lab ([^`\n#]*)", text, re.MULTILINE):
        name, *rest = line.split()
        if name not in ("--help", "COMMAND"):
            assert {word for word in rest if word.startswith("--")} <= options_of(name), line
    for line in re.findall(r"\./scripts/benchmark( [^`\n#]*)", text):
        assert {word for word in line.split() if word.startswith("--")} <= options_of("benchmark"), line


def test_every_kernel_that_is_listed_can_be_imported() -> None:
    rows = re.findall(r"^\| (`lab\.kernels\..*?) \|", DOCUMENTS["docs/kernels.md"], re.MULTILINE)
    assert rows
    module = ""
    for named in re.findall(r"`([\w.]+)`", " ".join(rows)):
        path, _, name = named.rpartition(".")
        module = path or module
        assert callable(getattr(importlib.import_module(module), name)), named


def test_every_operator_of_the_kernels_is_listed() -> None:
    """What has a float64 reference beside it, and the functions in CUDA C++."""
    listed = set(re.findall(r"[`.](\w+)`", DOCUMENTS["docs/kernels.md"]))
    for path in (ROOT / "lab" / "kernels").glob("*.py"):
        functions = set(re.findall(r"^def (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))
        operators = {name for name in functions if f"{name}_reference" in functions}
        assert operators | {name for name in functions if re.search(r"[a-z]_cuda_?$", name)} <= listed, path.name


def test_the_example_of_the_readme_is_taken_from_the_experiment_that_it_names() -> None:
    source = (ROOT / "experiments" / "cpu_fused_calls.py").read_text(encoding="utf-8")
    assert "experiments/cpu_fused_calls.py" in README
    for part in code_of(README, "python").split("...\n"):
        assert part.strip("\n") in source, part


def test_the_verdicts_in_the_readme_are_about_claims_that_are_made_today() -> None:
    (experiment,) = [each for each in load_experiments() if each.name == "cpu-fused-calls"]
    claims = {claim_sentence(claim) for claim in planned(experiment, frozenset()).claims}
    quoted = re.findall(r"^(?:faster|slower) +(.*)$", code_of(README, "text"), re.MULTILINE)
    assert len(quoted) == 2
    assert set(quoted) <= claims


def test_the_example_experiment_can_be_planned(example: Experiment) -> None:
    plan = make_plan(
        "try", [example], device="cpu", profiling=False, sweeps=3, include=frozenset(), policy_version=POLICY_VERSION
    )
    assert plan.cell_count() == len(example.cases) * len(example.profiles)
    assert example.name in DOCUMENTS["docs/authoring.md"].split("```")[-1]  # the commands name it


def test_the_profiles_of_the_example_experiment_are_right(example: Experiment) -> None:
    for case in example.cases:
        operator = case.operator
        arguments = operator.inputs((3, 70), torch.float32, "cpu", 1)
        again = operator.inputs((3, 70), torch.float32, "cpu", 1)
        assert all(torch.equal(one, other) for one, other in zip(arguments, again, strict=True))
        truth = operator.reference(*arguments)
        for profile in example.profiles:
            if not profile.recompiles:
                result = profile.implementations[operator.name]()(*arguments)
                torch.testing.assert_close(result.double(), truth, rtol=1e-6, atol=1e-6)
        assert operator.traffic(case.shape, 4).total_bytes == 8 * math.prod(case.shape)


def test_the_page_about_verdicts_follows_the_judge() -> None:
    text = DOCUMENTS["docs/verdicts.md"]
    assert f"This page describes policy {POLICY_VERSION}." in text
    assert code_of(text, "text").splitlines() == list(policy_page()["example"])
    assert set(re.findall(r"^\| ([a-z -]+) \|", text, re.MULTILINE)) - {"mark"} == set(MARKS)
    numbered = re.findall(r"^\d\. \*\*([a-z-]+)\*\*", text, re.MULTILINE)
    assert numbered == [status for status, _ in policy_page()["rules"]]


def test_nobody_is_told_to_install_the_lab_from_an_index_where_it_is_not() -> None:
    told = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *(ROOT / "lab" / "starter").glob("*.yml")]
    assert [path.name for path in told if "pip install kernel-evidence-lab" in path.read_text(encoding="utf-8")] == []
