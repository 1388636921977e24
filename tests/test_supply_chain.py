"""The lock holds all that pyproject.toml asks for, at the pinned versions, each with its digest."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lab.evidence.source import ROOT

LOCKED = re.compile(r"([a-z0-9.-]+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)")
LINES = [
    line
    for line in (ROOT / "scripts" / "requirements.lock").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def locked() -> dict[str, str]:
    """Versions by name."""
    return {canonicalize_name(match[1]): match[2] for line in LINES if (match := LOCKED.fullmatch(line))}


def test_every_line_of_the_lock_has_a_digest() -> None:
    assert len(LINES) > 60
    assert [line for line in LINES if not LOCKED.fullmatch(line)] == []


def test_the_lock_holds_what_the_project_asks_for() -> None:
    wanted = map(Requirement, [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]])
    lacking = [
        str(each)
        for each in wanted
        if not each.specifier.contains(locked().get(canonicalize_name(each.name), "0"), prereleases=True)
    ]
    assert lacking == []


def test_the_lock_has_the_versions_that_are_pinned() -> None:
    pins = (ROOT / "scripts" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [Requirement(pin) for pin in pins if pin and not pin.startswith("#")]
    other = {
        each.name: locked()[canonicalize_name(each.name)]
        for each in pinned
        if canonicalize_name(each.name) in locked()
        and not each.specifier.contains(locked()[canonicalize_name(each.name)], prereleases=True)
    }
    assert other == {}
