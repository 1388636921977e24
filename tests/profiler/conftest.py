import os
from functools import partial
from pathlib import Path

import pytest
from fake_ncu import Ncu, install


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ncu:
    """Put a program on the PATH as `ncu`: its body, as fake_ncu says."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return partial(install, folder)
