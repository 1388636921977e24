"""The README is a map, and a map must match the ground."""

import re

import pytest

from lab.cli import parser
from lab.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_map_lists_exactly_the_rooms_of_the_lab():
    rooms = {path.name for path in (ROOT / "lab").glob("*.py")} | {
        f"{path.name}/" for path in (ROOT / "lab").iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    rooms -= {"__init__.py"}
    listed = [
        name
        for line in re.findall(r"^\| (`.+?`) \|", README, re.MULTILINE)
        for name in re.findall(r"`(\w+(?:\.py|/))`", line)
    ]
    assert sorted(listed) == sorted(rooms)


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
