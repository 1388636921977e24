"""What an author gets wrong is told when a run is planned: all of it, by field, with what is accepted."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from factory import DOUBLING, FAST, FAST_BEATS_PLAIN, PLAIN, SMALL, small_experiment

from lab.cli import main
from lab.definition.catalogue import load_axes, load_experiments, load_titles
from lab.definition.experiment import Experiment
from lab.definition.mistakes import mistakes, refuse_mistakes
from lab.errors import DefinitionError
from lab.website.wording.references import typed_figures


def with_case(**changes: object) -> Experiment:
    case = dataclasses.replace(SMALL, **changes)
    claim = dataclasses.replace(FAST_BEATS_PLAIN, cases=(case,))
    return small_experiment(cases=(case,), claims=(claim,), headlines=(claim,))


def with_profile(**changes: object) -> Experiment:
    wrong = dataclasses.replace(FAST, **changes)
    claim = dataclasses.replace(FAST_BEATS_PLAIN, subject=wrong)
    return small_experiment(profiles=(PLAIN, wrong), claims=(claim,), headlines=(claim,))


def with_operator(**changes: object) -> Experiment:
    return with_case(operator=dataclasses.replace(DOUBLING, **changes))


MISTAKES = {
    "dtype": (with_case(dtype="fp32"), "dtype is 'fp32'; accepted are .*; did you mean 'float32'"),
    "shape": (with_case(shape=(4, 0)), r"shape is \(4, 0\); accepted is a tuple of whole numbers above 0"),
    "flag": (with_case(only_with="big one"), "only_with is 'big one'; accepted is a plain slug"),
    "inputs": (
        with_operator(inputs=lambda shape, dtype: ()),
        r"inputs is a function of \(shape, dtype\); accepted is .*\(shape, dtype, device, seed\)",
    ),
    "traffic's signature": (with_operator(traffic=lambda shape: 7), r"traffic is a function of \(shape\)"),
    "traffic's value": (with_operator(traffic=lambda shape, size: 7), r"traffic returns 7; accepted is lab.Traffic"),
    "traffic's fault": (with_operator(traffic=lambda shape, size: 1 / 0), "traffic fails with ZeroDivisionError"),
    "reference": (with_operator(reference=3), "reference is 3; accepted is a function"),
    "loader": (
        with_profile(implementations={"doubling": lambda x: x}),
        r"implementations\['doubling'\] is a function of \(x\); .* for a function f write lambda: f",
    ),
    "kernel": (with_profile(kernels={"other": "k"}), r"kernels name the operator 'other'; accepted are \['doubling'\]"),
    "device": (with_profile(devices=("gpu",)), r"devices name 'gpu'; accepted are \['cuda', 'cpu'\]"),
}


@pytest.mark.parametrize(("experiment", "pattern"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_what_is_accepted(experiment: Experiment, pattern: str) -> None:
    messages = list(mistakes(experiment))
    assert len(messages) == 1
    assert re.search(pattern, messages[0])


def test_a_sound_experiment_has_none() -> None:
    assert list(mistakes(small_experiment())) == []


@pytest.mark.parametrize("experiment", load_experiments(), ids=lambda experiment: experiment.name)
def test_the_labs_own_experiments_have_none(experiment: Experiment) -> None:
    assert list(mistakes(experiment)) == []


def test_all_of_several_experiments_stand_in_one_list_with_their_files() -> None:
    wrong = [MISTAKES["dtype"][0], MISTAKES["device"][0]]
    with pytest.raises(DefinitionError) as refusal:
        refuse_mistakes(wrong, lambda name: f"bench/{name}.py")
    first, *lines = str(refusal.value).splitlines()
    assert first.startswith("2 mistakes")
    assert all(line.startswith("bench/doubling.py: doubling: ") for line in lines)


@pytest.mark.parametrize(
    ("source", "pattern"),
    [
        ("import lab\nlab.Profile(nme=1)\n", r"bench\.py, line 2: TypeError: .*unexpected keyword argument 'nme'"),
        ("import lab\n\nlab.experiment('x', shapes=[)\n", r"bench\.py, line 3"),
        ("import nowhere_to_be_found\n", r"bench\.py, line 1: ModuleNotFoundError"),
    ],
    ids=["a wrong field", "a slip", "a missing package"],
)
def test_a_file_that_cannot_be_imported_is_named_with_its_line_and_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], source: str, pattern: str
) -> None:
    folder = f"bench_{abs(hash(source))}"
    (tmp_path / "pyproject.toml").write_text(f'[tool.kernel-evidence-lab]\nexperiments = "{folder}"\n')
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "bench.py").write_text(source)
    monkeypatch.setenv("LAB_PROJECT", str(tmp_path))
    assert main(["plan", "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert re.search(pattern, said)
    assert "Traceback" not in said


def test_a_figure_typed_into_a_hypothesis_is_reported_when_it_is_planned() -> None:
    experiment = with_profile(hypothesis="About 3× as fast, for tiles of `4 kB`.")
    with pytest.raises(DefinitionError, match=r"bench.py: doubling: hypothesis of fast: says '3×'\. A measured figure"):
        refuse_mistakes([experiment], lambda name: "bench.py", typed_figures([experiment]))


def test_a_flag_that_includes_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--device", "cpu", "--experiment", "normalization-fusion", "--include-rmsnorm-shape"]) == 2
    assert "did you mean 'rmsnorm-shape-sweep'" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "load"), [("titles.json", load_titles), ("axes.json", load_axes)])
@pytest.mark.parametrize("text", ["{", '["rmsnorm"]', '{"rmsnorm": 1}'])
def test_titles_and_axes_that_are_none_are_refused_by_the_name_of_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str, load: Callable[[], Mapping[str, str]]
) -> None:
    monkeypatch.setenv("LAB_PROJECT", str(tmp_path))
    (tmp_path / "pyproject.toml").write_text("[tool.kernel-evidence-lab]\n")
    assert load() == {}
    (tmp_path / "experiments").mkdir()
    path = tmp_path / "experiments" / name
    path.write_text(text)
    with pytest.raises(DefinitionError, match=re.escape(str(path))):
        load()
    path.write_text('{"rmsnorm": "RMSNorm"}')
    assert load() == {"rmsnorm": "RMSNorm"}
