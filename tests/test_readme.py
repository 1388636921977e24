"""The README is a map, and a map must match the ground."""

import re

import pytest

from lab.cli import parser
from lab.evidence.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAP = README[README.index("## The map") :]


def test_the_map_lists_exactly_the_rooms_of_the_lab():
    described_whole = {"tracking", "kernels", "pages", "charts", "audit", "data", "wording", "files", "verification"}
    rooms = []
    for path in (ROOT / "lab").rglob("*"):
        inside = set(path.relative_to(ROOT / "lab").parts[:-1])
        if path.name in ("__pycache__", "__init__.py") or inside & (described_whole | {"__pycache__"}):
            continue
        rooms.append(f"{path.name}/" if path.is_dir() else path.name)
    assert sorted(re.findall(r"^\| (?:\*\*)?`([\w/.]+)`(?:\*\*)? \|", MAP, re.MULTILINE)) == sorted(rooms)


@pytest.mark.parametrize("script", ["benchmark", "publish", "ui", "test"])
def test_the_four_scripts_stand_in_the_readme_and_can_be_run(script):
    assert f"./scripts/{script}" in README
    assert (ROOT / "scripts" / script).stat().st_mode & 0o111


def test_every_option_of_the_main_job_stands_in_the_readme():
    (commands,) = [action for action in parser()._actions if action.choices]
    options = {o for action in commands.choices["benchmark"]._actions for o in action.option_strings}
    assert {option for option in options if option not in ("-h", "--help") and option not in README} == set()


def test_pictures_in_the_readme_exist():
    for path in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert (ROOT / path).is_file(), path
