"""Which project the lab works for, and where everything of it lies."""

import subprocess
from pathlib import Path

import pytest

from lab.cli import main
from lab.errors import DefinitionError
from lab.evidence.source import ROOT, project_code, source_digest, uncommitted
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
    for name in ("bench/gelu.py", "venv/lib/torch/gelu.py", "venv/pyvenv.cfg"):
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text("1\n")
    for arguments in (("init", "--quiet"), ("add", "bench"), ("commit", "--quiet", "--message", "mine")):
        identity = ("-c", "user.name=A Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(mine), *identity, *arguments], check=True)
    assert project_code(mine) == ["bench/gelu.py"]
    assert uncommitted(mine) == []
    (mine / "bench/gelu.py").write_text("2\n")
    (mine / "bench/more.py").write_text("1\n")
    assert uncommitted(mine) == ["bench/gelu.py", "bench/more.py"]


@pytest.mark.parametrize("text", ["[tool.kernel-evidence-lab]\nexperimnts = 'x'\n", "[tool.kernel-evidence-lab\n"])
def test_settings_that_cannot_be_read_end_every_command_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.setenv("LAB_PROJECT", str(tmp_path))
    assert main(["list"]) == 2
    assert capsys.readouterr().err.startswith(f"lab: {tmp_path / 'pyproject.toml'}")
