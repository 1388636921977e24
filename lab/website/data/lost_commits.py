"""Commits that runs measured and that the repository's history does not have, each with the reason.

They stand in a file beside the evidence, for the site is built without git. A rewritten branch leaves such a commit
behind: its run still names it, and nobody can check it out.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from lab.errors import EvidenceError
from lab.project import project

NAME = "lost_commits.json"


def lost_commits() -> Mapping[str, str]:
    """Why, by commit; empty where the project lists none."""
    return _read(project().evidence / NAME)


@cache
def _read(path: Path) -> Mapping[str, str]:
    if not path.is_file():
        return {}
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(why, str) for why in listed.values()):
            raise ValueError("a reason is no text")
    except (AttributeError, ValueError) as problem:
        raise EvidenceError(f"{path}: must be an object of commits and reasons ({problem})") from None
    return dict(listed)
