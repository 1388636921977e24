"""Pages stay light: what an experiment's page weighs on its way to a reader, its charts included."""

import gzip
from pathlib import Path

import pytest

from lab.evidence.source import ROOT

LARGEST = 40 * 1024  # bytes, compressed
PAGES = sorted((ROOT / "site" / "experiments").glob("*/index.html"))


@pytest.mark.parametrize("path", PAGES, ids=[path.parent.name for path in PAGES])
def test_an_experiments_page_is_light(path: Path) -> None:
    assert len(gzip.compress(path.read_bytes())) <= LARGEST
