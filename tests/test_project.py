"""Which project the lab works for, and where everything of it lies."""

import os
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from forked_command import Command

from lab.cli import main
from lab.errors import DefinitionError
from lab.evidence.source import (
    ROOT,
    child_environment,
    commit_of,
    head,
    project_code,
    source_digest,
    timed_digest,
    uncommitted,
)
from lab.project import Settings, project
from lab.starter import start_project


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.kernel-evidence-lab]\nexperiments = "bench"\ntitle = "Mine"\n')
    (tmp_path / "deep" / "down").mkdir(parents=True)
    return tmp_path


def test_the_section_is_found_from_a_folder_below(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_PROJECT", raising=False)
    monkeypatch.chdir(mine / "deep" / "down")
    current_project = project()
    assert (current_project.root, current_project.experiments, current_project.settings.title) == (
        mine,
        mine / "bench",
        "Mine",
    )
    assert current_project.evidence == mine / "experiments" / "evidence"
    assert not current_project.is_the_labs_own


def test_a_variable_names_the_project_from_anywhere(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_PROJECT", str(mine))
    monkeypatch.chdir("/")
    assert project().root == mine


def test_where_there_is_no_section_a_checkout_of_the_lab_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAB_PROJECT", raising=False)
    monkeypatch.chdir(tmp_path)
    assert project().root == ROOT
    assert project().settings == Settings()


def test_whoever_is_outside_every_project_is_told_whose_runs_these_are(
    mine: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.delenv("LAB_PROJECT", raising=False)
    note, told = f"no project here or in a folder above: this is about the lab's own, {ROOT}. ", []
    for folder in (tmp_path_factory.mktemp("outside"), ROOT / "lab", mine):
        monkeypatch.chdir(folder)
        main(["judge", "no-such-run"])
        told.append(note in capsys.readouterr().err)
    assert told == [True, False, False]


def test_a_variable_that_names_no_folder_is_not_taken_for_an_empty_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_PROJECT", str(tmp_path / "gone"))
    with pytest.raises(DefinitionError, match=r"LAB_PROJECT names .*gone, and no folder is there"):
        project()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.kernel-evidence-lab]\nexperimants = 'x'", "unknown setting 'experimants'.*did you mean 'experiments'"),
        ("[tool.kernel-evidence-lab]\ntitle = 3", "title is 3; accepted is a text"),
        ("[tool]\nkernel-evidence-lab = 3", "tool.kernel-evidence-lab is 3; accepted is a table"),
        ("[tool", "cannot be read"),
    ],
)
def test_settings_that_cannot_be_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.setenv("LAB_PROJECT", str(tmp_path))
    with pytest.raises(DefinitionError, match=message):
        project()


def test_a_project_is_started_once_and_nothing_of_it_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\n')
    list(start_project(tmp_path))
    settings = (tmp_path / "pyproject.toml").read_text()
    assert settings.startswith('[project]\nname = "mine"\n\n[tool.kernel-evidence-lab]\n')
    (tmp_path / "experiments" / "gelu.py").write_text("# mine\n")
    list(start_project(tmp_path))
    assert (tmp_path / "pyproject.toml").read_text() == settings
    assert (tmp_path / "experiments" / "gelu.py").read_text() == "# mine\n"
    assert (tmp_path / ".gitignore").read_text().count("/runs/") == 1


def test_the_example_is_written_to_the_folder_that_the_settings_name(mine: Path) -> None:
    list(start_project(mine))
    assert (mine / "bench" / "gelu.py").is_file()
    assert not (mine / "experiments").exists()


def test_no_example_is_put_before_experiments_that_are_there(tmp_path: Path) -> None:
    """It would be measured in their place, as the first by name."""
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "softmax.py").write_text("# mine\n")
    said = list(start_project(tmp_path))
    assert not (tmp_path / "experiments" / "gelu.py").exists()
    assert f"{tmp_path / 'experiments'}: has softmax.py already, so no example is added" in said


@pytest.mark.parametrize(
    ("workflow", "statuses", "status"),
    [
        ("plain_runner.yml", {}, 0),
        ("plain_runner.yml", {"judge": 1}, 1),
        ("gpu_runner.yml", {}, 0),
        ("gpu_runner.yml", {"compare": 3}, 0),
        ("gpu_runner.yml", {"compare": 1}, 1),
        ("gpu_runner.yml", {"judge": 1}, 1),
    ],
)
def test_the_workflows_measure_all_and_fail_where_a_result_is_wrong(
    tmp_path: Path, workflow: str, statuses: dict[str, int], status: int
) -> None:
    """With a lab that measures nothing, and ends with these statuses."""
    (job,) = yaml.safe_load(files("lab.starter").joinpath(workflow).read_text())["jobs"].values()
    script = "\n".join(step["run"] for step in job["steps"] if "lab " in step.get("run", ""))
    endings = "".join(f"{command}) exit {code};; " for command, code in statuses.items())
    for name, program in (("lab", f'echo "lab $@"; case $1 in {endings}esac'), ("git", "")):
        (tmp_path / name).write_text(f"#!/bin/bash\n{program}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-e", "-c", re.sub(r"\$\{\{.*?\}\}", "7", script)],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    measured = [line for line in done.stdout.splitlines() if line.startswith(("lab run", "lab benchmark"))]
    assert measured
    assert all(line.endswith(" --experiment all") for line in measured)
    judged = "ci-7" if workflow == "plain_runner.yml" else "change"
    assert f"lab judge {judged} --require not-rejected" in done.stdout


def test_the_measured_source_of_a_project_is_all_of_its_code_and_the_installed_lab(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(mine.parent))
    for name in ("bench/gelu.py", "kernels/gelu.cu", "tests/test_gelu.py", "runs/x.py", "deep/notes.md", ".venv/a.py"):
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text("1\n")
    assert project_code(mine) == ["bench/gelu.py", "kernels/gelu.cu"]
    before = source_digest(mine)
    (mine / "tests" / "test_gelu.py").write_text("2\n")
    assert source_digest(mine) == before
    (mine / "kernels" / "gelu.cu").write_text("2\n")
    assert source_digest(mine) != before


def test_an_environment_that_git_does_not_ignore_is_no_source(mine: Path) -> None:
    for name in ("bench/gelu.py", "bench/größe.py", "venv/lib/torch/gelu.py", "venv/pyvenv.cfg"):
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text("1\n")
    for arguments in (("init", "--quiet"), ("add", "bench"), ("commit", "--quiet", "--message", "mine")):
        identity = ("-c", "user.name=A Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(mine), *identity, *arguments], check=True)
    assert project_code(mine) == ["bench/gelu.py", "bench/größe.py"]
    assert uncommitted(mine) == []
    (mine / "bench/gelu.py").write_text("2\n")
    (mine / "bench/more.py").write_text("1\n")
    assert uncommitted(mine) == ["bench/gelu.py", "bench/more.py"]


def test_a_project_whose_files_git_names_and_keeps_in_its_own_way_is_found_in_its_commit(mine: Path) -> None:
    """Links are kept as where they lead, and an environment that was committed is no source in either."""
    for name in ("bench/gelu.py", "bench/größe.py", "env/pyvenv.cfg", "env/lib/torch.py"):
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text("1\n")
    (mine / "bench" / "linked.py").symlink_to("gelu.py")
    (mine / os.fsdecode(b"odd-\xff.txt")).write_text("1\n")
    identity = ("-c", "user.name=A Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false")
    for arguments in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "mine")):
        subprocess.run(["git", "-C", str(mine), *identity, *arguments], check=True)
    assert project_code(mine) == ["bench/gelu.py", "bench/größe.py", "bench/linked.py"]
    assert uncommitted(mine) == []
    assert commit_of(source_digest(mine), mine) == head(mine)[0]


def test_a_folder_of_the_project_that_is_named_as_the_labs_is_timed(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(mine.parent))
    (mine / "lab" / "evidence").mkdir(parents=True)
    (mine / "lab" / "evidence" / "kernels.py").write_text("1\n")
    before = timed_digest(mine)
    (mine / "lab" / "evidence" / "kernels.py").write_text("2\n")
    assert timed_digest(mine) != before


@pytest.mark.parametrize("text", ["[tool.kernel-evidence-lab]\nexperimnts = 'x'\n", "[tool.kernel-evidence-lab\n"])
def test_settings_that_cannot_be_read_end_every_command_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.setenv("LAB_PROJECT", str(tmp_path))
    assert main(["list"]) == 2
    assert capsys.readouterr().err.startswith(f"lab: {tmp_path / 'pyproject.toml'}")


@pytest.fixture
def doubling(tmp_path: Path, compiler: None) -> Path:
    """The file of a project's one experiment."""
    (tmp_path / "pyproject.toml").write_text("[tool.kernel-evidence-lab]\n")
    (tmp_path / "experiments").mkdir()
    file = tmp_path / "experiments" / "mine.py"
    file.write_text(
        "import lab\n"
        "mine = lab.experiment('doubling', shapes=[(4, 8)], reference=lambda x: 2 * x.double())\n"
        "mine.profile('plain', lambda x: x + x, baseline=True, technique='A sum.')\n"
        "mine.profile('twice', lambda x: 2 * x)\n"
        "mine.claim('twice')\n"
    )
    return file


def planned(root: Path) -> str:
    environment = child_environment() | {"LAB_PROJECT": str(root)}
    done = Command(["plan", "--device", "cpu", "--sweeps", "2"], cwd=root, env=environment).end()
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_plan_names_what_is_not_committed(doubling: Path, tmp_path: Path) -> None:
    identity = ("-c", "user.name=A Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(tmp_path), "init", "--quiet"], check=True)
    assert "cannot be published yet: this git repository has no commit; commit, then measure" in planned(tmp_path)
    for arguments in (("add", "."), ("commit", "--quiet", "--message", "mine")):
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True)
    clean = planned(tmp_path)
    assert "not committed" not in clean
    assert "no verdicts: 3 sweeps are needed to judge" in clean
    doubling.write_text(f"{doubling.read_text()}\n# changed\n")
    changed = planned(tmp_path)
    assert "cannot be published yet: not committed: experiments/mine.py; commit, then measure" in changed


@pytest.mark.usefixtures("doubling")
def test_a_plan_says_that_no_commit_will_name_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert "  no git repository here: results cannot be tied to a commit; commit first" in planned(tmp_path)


@pytest.mark.usefixtures("doubling")
def test_a_plan_says_once_what_an_experiment_lacks_to_be_published(tmp_path: Path) -> None:
    (line,) = (line for line in planned(tmp_path).splitlines() if "cannot be published yet: experiments" in line)
    assert line.startswith("  cannot be published yet: experiments/mine.py: doubling lacks question (what is asked, ")
    assert "; technique (how it computes the result) of twice; " in line
    assert line.endswith("and why) of plain, twice")
