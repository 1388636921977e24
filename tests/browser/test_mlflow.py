"""The saved views, as MLflow's own pages draw them: their form is not documented, so only a browser can tell."""

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from factory import plan_of, records_of, small_experiment, write_run
from forked_command import Command

from lab.evidence.source import ROOT

PATIENCE = 60_000  # milliseconds, for a machine that is busy
BARS = ".js-plotly-plot .barlayer .trace.bars"


@pytest.fixture
def link(browser: object, tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What `lab ui` prints for a tracked experiment of two cases and two profiles."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    plan = plan_of("night-3", experiments=[small_experiment()], include=["large-sweep"])
    write_run(tmp_path / "night-3", plan, records_of(plan, {"plain": 40e-6, "fast": 20e-6}))
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = os.environ | {"LAB_RUNS": str(tmp_path), "PYTHONPATH": str(ROOT)}
    # Not by this process, whose open database a fork of it could not use.
    assert Command(["track", "night-3"], cwd=ROOT, env=environment).end().returncode == 0
    ui = Command(["ui", "--port", port, "--no-browser"], cwd=ROOT, env=environment)
    yield ui.stdout.readline().strip().removeprefix("doubling: ")
    os.kill(ui.pid, signal.SIGTERM)
    ui.end()


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
