"""A file that cannot be read stops what needs it, and nothing that does not; it is always named."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import small_caches
from forked_command import Command
from warm_workers import Forks

from lab.definition.catalogue import PLACES
from lab.evidence.source import HANDED_OVER, ROOT, child_environment

SOUND = """\
import lab
mine = lab.experiment('{name}', shapes=[(4, 8)], reference=lambda x: 2 * x.double())
mine.profile('plain', lambda x: x + x, baseline=True)
mine.profile('twice', lambda x: 2 * x)
mine.claim('twice')
"""
BROKEN = {
    "a mistake of Python's": ("import lab\nbroken = (\n", "broken.py, line 2: SyntaxError: '(' was never closed\n"),
    "a package that is not here": (
        "import lab\nimport nowhere.deep\n",
        "line 2: ModuleNotFoundError: No module named 'nowhere'; "
        "install it, or import it in a profile's load= only, with package='nowhere'",
    ),
    "a file beside it": (
        "import sound\n",
        "No module named 'sound'; it lies in the folder of experiments: import experiments.sound",
    ),
    "a program that exits": ("import sys\n\nsys.exit(7)\n", "broken.py, line 3: SystemExit: 7"),
    "a program that exits at once": ("import os\n\nos._exit(0)\n", "broken.py, line 3: SystemExit: os._exit(0)"),
    "a program that catches that": (
        "import os\ntry:\n    os._exit(0)\nexcept SystemExit:\n    pass\n",
        "broken.py, line 3: SystemExit: os._exit(0)",
    ),
    "a mistake of the lab's": (SOUND.format(name="Broken"), "experiment: 'Broken' is not a plain slug"),
    "one variable for two": (
        SOUND.format(name="lost") + SOUND.format(name="broken"),
        "broken.py, line 2: experiment 'lost': no variable of the file holds it; give each one of its own",
    ),
    "one name twice": (
        (SOUND + SOUND.replace("mine", "other")).format(name="broken"),
        "two experiments are called 'broken'; rename one",
    ),
}


# A module outside the folder that makes experiments, as a helper of the author's.
MAKER = (
    SOUND.replace("mine = ", "def make(name):\n    mine = ")
    .replace("'{name}'", "name")
    .replace("\nmine.", "\n    mine.")
)
MAKER += "    return mine\n"


class Outcome:
    """Of a command in a process of its own. `forks`: where that comes from, if it measures."""

    def __init__(self, root: Path, *arguments: str, forks: Forks | None = None) -> None:
        environment = child_environment() | {"LAB_PROJECT": str(root)}
        if forks:
            environment["PYTHONPATH"] = small_caches.PYTHONPATH
            command = ["-m", "lab.cli", *arguments]
            process = forks.start(command, cwd=root, env=environment, preload=["torch._dynamo"])
            self.output, self.said = process.communicate()
            self.status = process.returncode
        else:
            done = Command(arguments, cwd=root, env=environment).end()
            self.status, self.output, self.said = done.returncode, done.stdout, done.stderr
        assert "Traceback" not in self.said


@pytest.fixture
def root(tmp_path: Path, compiler: None) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.kernel-evidence-lab]\n")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "sound.py").write_text(SOUND.format(name="doubling"))
    return tmp_path


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_an_experiment_beside_what_is_broken_is_shown_with_a_warning(root: Path, text: str, message: str) -> None:
    (root / "experiments" / "broken.py").write_text(text)
    shown = Outcome(root, "list", "doubling")
    assert (shown.status, shown.output.splitlines()[0].split()[0]) == (0, "doubling")
    assert shown.said.startswith("lab: warning: left out: ")
    assert message in shown.said


@pytest.mark.parametrize("text", ["import nowhere\n", "__import__('os')._exit(0)\n"])
@pytest.mark.parametrize("command", [("check", "doubling"), ("plan", "--device", "cpu", "--experiment", "doubling")])
def test_it_is_checked_and_planned_too(root: Path, command: tuple[str, ...], text: str) -> None:
    (root / "experiments" / "broken.py").write_text(text)
    done = Outcome(root, *command)
    assert done.status == 0
    assert "doubling-4x8-float32" in done.output
    assert done.said.count("broken.py, line 1: ") == 1


def test_it_is_measured_and_has_a_preview_too(root: Path, forks: Forks) -> None:
    (root / "experiments" / "broken.py").write_text("import nowhere\n")
    how = ("--device", "cpu", "--experiment", "doubling", "--sweeps", "1")
    done = Outcome(root, "benchmark", "--run-id", "beside", *how, forks=forks)
    assert done.status == 0, done.said
    assert (root / "runs" / "beside" / "preview" / "experiments" / "doubling" / "index.html").is_file()


def test_a_list_of_all_shows_what_is_sound_and_fails_with_what_is_not(root: Path) -> None:
    (root / "experiments" / "broken.py").write_text("import nowhere\n")
    (root / "experiments" / "more.py").write_text("import nowhere_either\n")
    listed = Outcome(root, "list")
    assert (listed.status, listed.output.splitlines()[0].split()[0]) == (2, "doubling")
    assert "broken.py, line 1: ModuleNotFoundError" in listed.said
    assert "more.py, line 1: ModuleNotFoundError" in listed.said


@pytest.mark.parametrize(
    "command",
    [("check",), ("plan", "--device", "cpu"), ("plan", "--device", "cpu", "--experiment", "all"), ("build",)],
    ids=" ".join,
)
def test_what_is_asked_of_all_experiments_is_refused(root: Path, command: tuple[str, ...]) -> None:
    (root / "experiments" / "broken.py").write_text("import nowhere\n")
    refused = Outcome(root, *command)
    assert refused.status == 2
    assert "broken.py, line 1: ModuleNotFoundError" in refused.said


def left_out(done: Outcome, status: int = 0) -> list[str]:
    assert done.status == status, done.said
    return [line for line in (done.output + done.said).splitlines() if line.startswith("not in this run: ")]


def test_a_plan_and_a_run_begin_with_what_is_left_out_as_none_was_named(root: Path, forks: Forks) -> None:
    for number in range(7):
        (root / "experiments" / f"{number}.py").write_text(SOUND.format(name=f"number-{number}"))
    line = "not in this run: number-1, number-2, number-3, number-4, number-5 and 2 more"
    line += "; --experiment all takes every experiment"
    how = ("--device", "cpu", "--sweeps", "1")
    planned = Outcome(root, "plan", *how)
    assert (planned.output.splitlines()[0], left_out(planned)) == (line, [line])
    assert left_out(Outcome(root, "plan", *how, "--experiment", "doubling")) == []
    assert left_out(Outcome(root, "plan", *how, "--experiment", "all")) == []
    ran = Outcome(root, "run", "--run-id", "first", *how, forks=forks)
    assert (ran.said.splitlines()[0], left_out(ran)) == (line, [line])
    again = Outcome(root, "benchmark", "--run-id", "first", *how, forks=forks)  # refused where it would measure
    assert left_out(again, status=2) == [line]
    assert "is finished" in again.said


def test_the_help_names_no_experiment_that_another_project_lacks(root: Path) -> None:
    assert "normalization-fusion" not in Outcome(root, "benchmark", "--help").output


@pytest.mark.parametrize("command", [("check",), ("list",), ("plan",), ("plan", "--experiment", "all")], ids=" ".join)
def test_a_project_without_an_experiment_is_told_so(root: Path, command: tuple[str, ...]) -> None:
    (root / "experiments" / "sound.py").write_text("# none yet\n")
    refused = Outcome(root, *command)
    assert (refused.status, refused.output) == (2, "")
    assert refused.said == f"lab: {root / 'experiments'}: defines no experiment yet\n"


@pytest.mark.parametrize("command", ["check", "build"])
def test_a_file_that_exits_at_once_does_not_end_a_command_as_if_it_had_succeeded(root: Path, command: str) -> None:
    (root / "experiments" / "broken.py").write_text("import os\nos._exit(0)\n")
    refused = Outcome(root, command)
    assert refused.status == 2
    assert "broken.py, line 2: SystemExit: os._exit(0)" in refused.said


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (
            "import nowhere\n",
            "halving",
            "no experiment 'halving'; .*\nit may be in a file that cannot be read:\n.*brok",
        ),
        (SOUND.format(name="Broken"), "Broken", "broken.py, line 2: experiment 'Broken'\n"),
        (SOUND.format(name="Broken"), "brken", "no experiment 'brken'; accepted are .*; did you mean 'Broken'"),
        (SOUND.format(name="doubling"), "doubling", "broken.py and .*sound.py: two experiments are called 'doubling'"),
    ],
)
def test_what_is_asked_for_and_may_be_broken_is_refused(root: Path, text: str, name: str, message: str) -> None:
    (root / "experiments" / "broken.py").write_text(text)
    refused = Outcome(root, "list", name)
    assert (refused.status, refused.output) == (2, "")
    assert re.search(message, refused.said), refused.said


def test_a_file_that_forks_and_keeps_the_way_to_exit_at_once_has_it_as_ever(root: Path) -> None:
    (root / "experiments" / "forks.py").write_text(
        "import os\nfrom os import _exit\nif not (child := os.fork()):\n    os._exit(7)\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
    )
    program = (
        "import os; real = os._exit\nfrom lab.definition.loading import load_folder\nfrom pathlib import Path\n"
        "forks, _ = load_folder(Path('experiments').resolve()).modules\n"
        "assert (os._exit, forks.code) == (real, 7)\nforks._exit(5)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=root, env=child_environment()
    )
    assert done.returncode == 5, done.stderr


@pytest.mark.parametrize("kept", ["[make('one'), make('two')]", "{'a': make('one'), 'b': make('two')}"])
def test_a_list_of_experiments_is_held(root: Path, kept: str) -> None:
    (root / "maker.py").write_text(MAKER)
    (root / "experiments" / "many.py").write_text(f"from maker import make\nEVERY = {kept}\n")
    done = Outcome(root, "list")
    assert done.status == 0, done.said
    assert all(name in done.output for name in ("doubling", "one", "two"))
    assert "experiments/many.py: one lacks" in Outcome(root, "plan", "--experiment", "one").output


def test_an_experiment_that_a_helper_made_and_no_variable_holds_is_named(root: Path) -> None:
    (root / "maker.py").write_text(MAKER)
    (root / "experiments" / "many.py").write_text("from maker import make\nit = make('one')\nit = make('two')\n")
    done = Outcome(root, "list")
    assert done.status == 2
    assert "experiment 'one': no variable of the file holds it" in done.said


def test_a_draft_that_is_made_later_is_not_missed(root: Path) -> None:
    """As in a test or a notebook, which calls a function of the author's file."""
    (root / "experiments" / "sound.py").write_text(MAKER + "doubling = make('doubling')\n")
    program = (
        "from lab.definition.catalogue import load_experiments\n"
        "from lab.definition.loading import load_folder\n"
        "from lab.project import project\n"
        "(module,) = load_folder(project().experiments).modules\n"
        "module.make('later'); print([each.name for each in load_experiments()])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=root,
        env=child_environment() | {"LAB_PROJECT": str(root), "PYTHONPATH": f"{root}:{ROOT}"},
    )  # fmt: skip
    assert done.stdout == "['doubling']\n", done.stderr


NAMED = """\
import lab
def plain(x): return x + x
def reference(x): return 2 * x.double()
mine = lab.experiment('doubling', shapes=[(4, 8)], reference=reference)
mine.profile('plain', plain, baseline=True)
mine.profile('twice', plain)
mine.claim('twice')
"""


def test_what_a_test_hands_over_is_of_the_project_also_where_another_folder_has_its_name(root: Path) -> None:
    """As this repository has, which comes first where the lab is used from a checkout."""
    (root / "experiments" / "sound.py").write_text(NAMED)
    write = "import cloudpickle, sys; from lab.definition.catalogue import choose_experiments as choose; "
    write += "open(sys.argv[1], 'wb').write(cloudpickle.dumps(choose(['doubling'])[0]))"
    read = "from lab.definition.catalogue import choose_experiments as choose; print(choose(['doubling'])[0].name)"
    handed = root / "handed"
    (root / PLACES).write_text("[]")
    for program, more in ((write, {}), (read, {HANDED_OVER: str(handed)})):
        done = subprocess.run(
            [sys.executable, "-c", program, str(handed)], capture_output=True, text=True, check=False, cwd=root,
            env=child_environment() | {"LAB_PROJECT": str(root), "PYTHONPATH": f"{ROOT}:{root}", **more},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert done.stdout == "doubling\n"


def test_what_a_test_in_a_folder_of_tests_hands_over_is_found_by_who_measures_it(root: Path) -> None:
    """pytest puts the folder of the test's file on sys.path."""
    (root / "tests").mkdir()
    (root / "tests" / "test_doubling.py").write_text(NAMED)
    read = "from lab.definition.catalogue import choose_experiments as choose; print(choose(['doubling'])[0].name)"
    program = (
        "import subprocess, sys; sys.path.insert(0, 'tests'); import test_doubling\n"
        "from lab.evidence.source import child_environment\n"
        "from lab.notebook import _handed_over\n"
        "with _handed_over(test_doubling.mine.definition()):\n"
        f"    subprocess.run([sys.executable, '-P', '-c', {read!r}], env=child_environment(), check=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=root,
        env=child_environment() | {"LAB_PROJECT": str(root)},
    )  # fmt: skip
    assert done.stdout == "doubling\n", done.stderr
