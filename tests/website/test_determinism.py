"""The same evidence makes the same site, byte for byte, wherever and however it is built."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from factory import measured_run, publish
from test_architecture import imports

from lab.evidence.source import ROOT
from lab.website.data.judged_cache import JUDGING
from lab.website.files.inventory import read_files

TIMES = {"torch-baseline": 230e-6, "torch-fused": 30e-6, "torch-compile": 23e-6, "triton-fused-rmsnorm": 22e-6}
PARTS = ("lab", "experiments", "site_templates")
# .ci/run builds a site of all experiments under other habits, and compares it with that which is committed.
BUILD = """
import sys
from pathlib import Path
from few_experiments import only
from lab.website.site import build_site

with only():
    build_site(*map(Path, sys.argv[1:]))
"""
# Where, and under what habits of a machine. The order of sets follows PYTHONHASHSEED, of files the file system.
HABITS = {
    "plain": {"TZ": "America/St_Johns", "LC_ALL": "C", "PYTHONHASHSEED": "0", "PYTHONUTF8": "0", "COLUMNS": "20"},
    "elsewhere": {"TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "4242", "LANG": "de_DE.UTF-8"},
}


def test_data_that_are_kept_are_made_anew_where_any_module_behind_them_changes() -> None:
    folder = ROOT / "lab" / "website" / "data"
    makers = (folder / "judged.py", *folder.glob("published*.py"))
    behind = {f"{module.replace('.', '/')}.py" for path in makers for module in imports(path)}
    watched = {path.relative_to(ROOT).as_posix() for place in JUDGING for path in ROOT.glob(place)}
    assert "lab/website/data/typed.py" in behind
    assert {name for name in behind if name.startswith("lab/website/") and (ROOT / name).is_file()} <= watched


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("same")
    publish(root / "evidence", measured_run(root / "runs", TIMES, run_id="first", sweeps=3))
    publish(root / "evidence", measured_run(root / "runs", TIMES, run_id="second", sweeps=3, profiling=True))
    (root / "decisions").mkdir()
    return root


def test_folder_zone_locale_and_hash_seed_change_nothing(evidence: Path) -> None:
    """Each from a checkout of its own, so that none takes up what another has judged."""

    # lab/evidence is a package, experiments/evidence the published runs: 30 MB that no build here reads.
    def left_out(folder: str, names: list[str]) -> set[str]:
        return {"evidence", "decisions"} & set(names) if Path(folder) == ROOT / "experiments" else set()

    running = []
    for name, habits in HABITS.items():
        checkout = evidence / name / "a check-out"
        for part in PARTS:
            shutil.copytree(ROOT / part, checkout / part, ignore=left_out)
        known = {key: value for key, value in os.environ.items() if key not in ("TZ", "LC_ALL", "LANG", "COLUMNS")}
        arguments = [sys.executable, "-c", BUILD, "site", str(evidence / "decisions"), str(evidence / "evidence")]
        places = {"PYTHONPATH": os.pathsep.join((str(checkout), str(ROOT / "tests")))}
        running.append(subprocess.Popen(arguments, cwd=checkout, env=known | places | habits))
    assert [process.wait(timeout=300) for process in running] == [0] * len(HABITS)
    first, other = (read_files(evidence / name / "a check-out" / "site") for name in HABITS)
    assert other.keys() == first.keys()
    assert [name for name in first if other[name] != first[name]] == []
