"""A project of somebody else, with the lab from a wheel: from nothing to a published page and a red gate.

The wheel is built here and put into a fresh virtual environment, which borrows the packages of this one.
"""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import small_caches
from factory import measured_run
from waiting import LIMIT_SECONDS

from lab.evidence.source import ROOT

BUILD = "from setuptools import build_meta as b; import sys; print(b.build_wheel(sys.argv[1]))"
STARTER = (ROOT / "lab" / "starter" / "gelu.py").read_text(encoding="utf-8")
# What turns the starter into what can be published in seconds: one shape, no compiler, and the words of a publication.
# How much it reads and writes is told, for to find it out PyTorch loads its compiler, for 2.5 s of each command.
CHANGES = {
    ", (128, 4096), (1024, 4096)": "",
    "tolerance=16)": 'tolerance=16, reads=1, writes=1, question="Is one call faster?",'
    ' importance="Every layer calls it.", does_not_show=("The backward pass.",))',
    "baseline=True": 'baseline=True, technique="An operation at a time.", hypothesis="Slower: four tensors."',
    '"fused", gelu': '"fused", gelu, technique="One call.", hypothesis="Faster: the input is read once."',
    'exp.profile("compiled"': "# exp.profile(",
    'exp.claim("compiled"': "# exp.claim(",
}


def sound() -> str:
    text = STARTER
    for old, new in CHANGES.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


class OwnProject:
    """A fresh environment with the wheel, and a project made by `lab init`."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "mine"
        self.packages = folder / "venv" / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        self._lab = folder / "venv" / "bin" / "lab"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
        wheel = self._wheel(folder)
        pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(folder / "venv" / "bin" / "python")]
        # Without PYTHONPATH, by which pip would find the checkout's own package, installed already, and do nothing.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run(
            [*pip, "install", "--no-index", "--no-deps", str(wheel)], env=environment, check=True, capture_output=True
        )
        (self.packages / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        self.installed = self.files()

    def _wheel(self, folder: Path) -> Path:
        tree = folder / "tree"
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "lab", "site_templates",
                  "pyproject.toml", "README.md", "LICENSE"]  # fmt: skip
        for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n"):
            if name and (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_bytes((ROOT / name).read_bytes())
        subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=tree, check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        return wheel

    def files(self) -> set[Path]:
        """What lies in site-packages, but for what Python itself compiles."""
        return {path for path in self.packages.rglob("*") if path.suffix != ".pyc" and path.name != "__pycache__"}

    def lab(self, *arguments: str, status: int = 0, cwd: Path | None = None) -> str:
        """Both outputs of a command that ends with this status."""
        left = {"LAB_PROJECT", "LAB_RUNS", "TRITON_INTERPRET"}
        environment = {name: value for name, value in os.environ.items() if name not in left}
        environment |= {"GIT_CEILING_DIRECTORIES": str(self.project.parent), "PYTHONPATH": str(small_caches.PLACE)}
        done = subprocess.run(
            [str(self._lab), *arguments], cwd=cwd or self.project, env=environment, capture_output=True, text=True,
            timeout=LIMIT_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> OwnProject:
    return OwnProject(tmp_path_factory.mktemp("own"))


def test_the_wheel_holds_the_front_end_and_no_package_but_the_lab(place: OwnProject) -> None:
    assert (place.packages / "lab" / "site_templates" / "style.css").is_file()
    assert (place.packages / "lab" / "verdict" / "simulation.json").is_file()
    assert (place.packages / "lab" / "starter" / "gpu_runner.yml").is_file()
    assert not (place.packages / "experiments").exists()
    names = {path.name.split("-")[0] for path in place.packages.iterdir()}
    assert names == {"lab", "kernel_evidence_lab", "borrowed.pth"}


def test_from_nothing_to_a_published_page_and_a_red_gate(place: OwnProject) -> None:
    place.project.mkdir()
    place.lab("init")
    below = place.project / "experiments"
    output = place.lab("plan", "--device", "cpu", cwd=below)
    assert "9 cells x 5 sweeps" in output
    assert "cannot be published yet: experiments/gelu.py: gelu lacks question (what is asked, " in output

    (below / "gelu.py").write_text(sound())
    output = place.lab("run", "--run-id", "first", "--device", "cpu", "--sweeps", "1", cwd=below)
    assert output.count("  measured\n") == 2, output  # and none of the starter's results is wrong
    output = place.lab("publish", "first")
    assert "provenance:" in output
    assert "is no git repository, so no commit can be named" in output
    page = (place.project / "site" / "experiments" / "gelu" / "index.html").read_text()
    assert "Is one call faster?" in page
    assert "lab benchmark --run-id" in re.sub("<[^>]*>", "", page)
    assert not re.search(r"\./scripts/|\.venv/bin/", page)
    assert "Mine: kernel evidence</title>" in page
    front = (place.project / "site" / "index.html").read_text()
    assert "Which implementation is fastest at your shape" in front
    assert "No run has been published" not in front
    assert "FA4" not in front
    assert "“lab” is this repository" not in front  # nothing here is the lab's
    assert "benchmark projects" not in (place.project / "site" / "methods" / "index.html").read_text()
    assert "0 differences" in place.lab("verify").replace("no differences", "0 differences")

    # How a real run is judged depends on how busy this machine is; these two runs never happened.
    for run_id, seconds in (("before", 20e-6), ("after", 22e-6)):
        times = {"torch-baseline": 90e-6, "torch-fused": 30e-6, "triton-fused-rmsnorm": seconds}
        measured_run(place.project / "runs", times, run_id=run_id, include=())
    output = place.lab("compare", "before", "after", "--fail-if-slower", "3%", "--markdown", "-", status=1)
    assert "### Kernel evidence: a regression" in output
    assert place.files() == place.installed
