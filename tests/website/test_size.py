"""Pages stay light: what an experiment's page weighs on its way to a reader, its charts included."""

import gzip
from pathlib import Path
from random import Random

import pytest

from lab.definition.families import FAMILIES
from lab.evidence.source import ROOT
from lab.website.data.overview import overview
from lab.website.pages.grid import grid_view
from lab.website.render import environment

LARGEST = 40 * 1024  # bytes, compressed
LARGEST_FRONT = 60 * 1024
LARGEST_SCRIPTS = 22 * 1024  # of the site's own, uncompressed
PAGES = sorted((ROOT / "site" / "experiments").glob("*/index.html"))


@pytest.mark.parametrize("path", PAGES, ids=[path.parent.name for path in PAGES])
def test_an_experiments_page_is_light(path: Path) -> None:
    assert len(gzip.compress(path.read_bytes())) <= LARGEST


def test_the_sites_own_scripts_are_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "site_templates").glob("*.js")) <= LARGEST_SCRIPTS


def test_the_front_page_is_light_with_three_hundred_shapes() -> None:
    """Each in two call modes by four implementations, with times at random: the real ones repeat more."""
    families = list(FAMILIES)[:4]
    random = Random(1)
    shapes = {
        mode: {
            f"operator-{n % 12}-{16 * n + 16}x4096-bfloat16": {
                "gpu": "H100", "mode": mode, "case": f"operator-{n % 12}-{16 * n + 16}x4096-bfloat16",
                "op": f"operator-{n % 12}", "shape": [16 * n + 16, 4096], "dtype": "bfloat16",
                "experiment": f"experiment-{n % 12}", "digest": "ab" * 32, "date": "2026-01-02", "best": families[0],
                "cells": {
                    family: {
                        "profile": family, "p50_seconds": float(f"{random.uniform(1e-6, 1e-3):.3g}"),
                        "call": "slower" if place else "best",
                        **({"times_fastest": float(f"{random.uniform(1, 20):.3g}")} if place else {}),
                    }
                    for place, family in enumerate(families)
                },
                "margin": {"over": families[1], "ratio": 1.1, "low": 1.05, "high": 1.15},
                "range": {"least_seconds": 1e-6, "most_seconds": 2e-6, "sweeps": 5},
            }
            for n in range(300)
        }
        for mode in ("device_cold", "graph")
    }  # fmt: skip
    view = grid_view(overview([], {"H100": shapes}, ()), {})
    boards = "{% for board in grid.boards %}{{ grids.board(board) }}{% endfor %}"
    imports = "{% import '_grid.html' as grids %}"
    html = environment().from_string(imports + boards).render(grid=view)
    assert html.count("<tr class=") >= 600
    assert len(gzip.compress(html.encode())) <= LARGEST_FRONT - 6 * 1024  # the rest of the page
