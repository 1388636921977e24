"""The saved views, as MLflow's own pages draw them: their form is not documented, so only a browser can tell."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from factory import plan_of, records_of, small_experiment, write_run

from lab.evidence.source import ROOT
from lab.tracking.fill import track
from lab.verdict.results import load_run

PATIENCE = 60_000  # milliseconds, for a machine that is busy
BARS = ".js-plotly-plot .barlayer .trace.bars"


@pytest.fixture
def link(browser: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What `lab ui` prints for a tracked experiment of two cases and two profiles."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    plan = plan_of("night-3", experiments=[small_experiment()], include=["large-sweep"])
    directory = write_run(tmp_path / "night-3", plan, records_of(plan, {"plain": 40e-6, "fast": 20e-6}))
    list(track(load_run(directory), directory, tmp_path))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ui = subprocess.Popen(
        [sys.executable, "-m", "lab.cli", "ui", "--port", port, "--no-browser"],
        cwd=ROOT, env=os.environ | {"LAB_RUNS": str(tmp_path)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert ui.stdout
    yield ui.stdout.readline().strip().removeprefix("doubling: ")
    ui.terminate()
    ui.wait(30)


def test_the_link_opens_bars_of_p50_and_speed_up_by_case_in_the_colours_of_profiles(browser: Any, link: str) -> None:
    page = browser.new_page(viewport={"width": 1600, "height": 1800})
    page.goto(link)
    page.get_by_text("Speed-up over plain, ×").wait_for(timeout=PATIENCE)
    page.locator(BARS).nth(2).wait_for(state="attached", timeout=PATIENCE)

    text = page.locator("body").inner_text()
    assert text.index("p50 by case, µs") < text.index("Speed-up over plain, ×") < text.index("latency\n")
    times = page.locator(".js-plotly-plot").first
    assert times.locator(".legendtext").all_text_contents() == ["p50_us/plain", "p50_us/fast"]
    bars = times.locator(".trace.bars")
    assert [bars.nth(number).locator(".point path").count() for number in range(2)] == [2, 2]  # a lane for each case
    colours = [bars.nth(n).locator(".point path").first.evaluate("bar => bar.style.fill") for n in range(2)]
    assert len(set(colours)) == 2
    page.close()
