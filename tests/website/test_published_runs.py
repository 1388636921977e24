"""Pages of runs, of their verdicts, of GPUs and of pairs of runs: one small site with five published runs."""

import dataclasses
import functools
import gzip
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factory import ceiling_seconds, machine, plan_of, records_of, write_run
from test_site import TIMES, Page, publish

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import CEILINGS
from lab.errors import RunError
from lab.evidence import journal
from lab.evidence.record import Machine, RunFinish
from lab.verdict.judge import POLICY_VERSION
from lab.website import format
from lab.website.site import build_site

NORMS = "normalization-fusion"
SLOWER = TIMES | {"triton-fused-rmsnorm": 1.5 * TIMES["triton-fused-rmsnorm"]}
CUT = "the box was wanted elsewhere"

pytestmark = pytest.mark.usefixtures("few_experiments")


def run_of(
    evidence: Path, run_id: str, hour: int, on: Machine, times: dict[Any, float], experiments: Any = None, cut: str = ""
) -> str:
    """Publish a run that ended at that hour; returns its digest."""
    plan = plan_of(run_id, device=on.device, experiments=experiments and choose_experiments(experiments))
    *records, _ = records_of(plan, times, on=on)
    end = RunFinish(finished_utc=f"2026-01-02T{hour:02}:30:00Z", wall_seconds=1080.0, cut_short=cut)
    directory = write_run(evidence.parent / run_id, plan, [*records, end])
    if cut:
        path = directory / journal.NAME
        lines = path.read_text().splitlines()
        lines[6] = "0" * 16 + lines[6][16:]
        path.write_text("\n".join(lines) + "\n")
    publish(evidence, directory)
    return str(json.loads((evidence / run_id / "evidence.json").read_text())["digest"])


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """The site, and the digests of its runs by name."""
    folder = tmp_path_factory.mktemp("world")
    evidence, decisions = folder / "evidence", folder / "decisions"
    decisions.mkdir()
    digests = {
        "first": run_of(evidence, "first", 4, machine(), TIMES),
        "again": run_of(evidence, "again", 5, machine(torch="2.12.0"), SLOWER),
        "elsewhere": run_of(evidence, "h200-elsewhere-2026-01-03", 6, machine(gpu_id="fedcba987654"), TIMES, cut=CUT),
        "cpu": run_of(evidence, "cpu", 7, machine("cpu"), {"torch-baseline": 60e-3, "torch-fused": 90e-3}),
        "ceilings": run_of(
            evidence, "ceilings", 8, machine(), TIMES | ceiling_seconds(), [CEILINGS, NORMS, "softmax-fusion"]
        ),
    }
    build_site(folder / "site", decisions, evidence, samples=True)
    return folder / "site", digests


@pytest.fixture(scope="module")
def page(world) -> Callable[..., Page]:
    """A page by its address; a name of a run in braces stands for twelve characters of its digest."""
    site, digests = world
    short = {name: digest[:12] for name, digest in digests.items()}
    return lambda address: Page(site / address.format(**short) / "index.html")


def data(world, address: str) -> Any:
    site, digests = world
    return json.loads((site / address.format(**{n: d[:12] for n, d in digests.items()})).read_text())


def test_a_run_says_when_where_and_how_it_was_measured(page):
    text = page("runs/{first}").text
    for word in ("Run first", "2026-01-02 04:30 UTC", "NVIDIA H100 80GB HBM3", "c" * 40, "18.0 min", "0123456789ab",
                 "580.159.04", "Sweeps asked for", "load 25.0 s", "lab verify"):  # fmt: skip
        assert word in text, word


def test_a_run_that_was_cut_short_and_its_damaged_lines_say_so(page):
    text = page("runs/{elsewhere}").text
    assert "The box was wanted elsewhere." in text
    assert "Journal line 7: " in text
    assert "cut short" in page("runs").text
    assert "Cut short." not in page("runs/{first}").text


def test_a_run_that_is_named_after_another_gpu_or_day_says_so(page):
    text = page("runs/{elsewhere}").text
    assert "The name says H200; the run was measured on an NVIDIA H100 80GB HBM3." in text
    assert "The name says 2026-01-03; the run was measured on 2026-01-02 (UTC)." in text
    assert "The name says" not in page("runs/{first}").text


def test_the_files_of_a_run_are_its_own_unchanged(world):
    site, digests = world
    folder = site / "runs" / digests["first"][:12]
    manifest = json.loads((folder / "evidence.json").read_text())
    assert manifest["digest"] == digests["first"]
    assert hashlib.sha256((folder / "plan.json").read_bytes()).hexdigest() == manifest["files"]["plan.json"]
    whole = gzip.decompress((folder / "journal.jsonl.gz").read_bytes())
    assert hashlib.sha256(whole).hexdigest() == manifest["files"]["journal.jsonl"]
    links = Page(folder / "index.html").links
    assert {"evidence.json", "plan.json", "journal.jsonl.gz"} <= set(links)


def test_a_compressed_journal_holds_no_time_of_its_making(tmp_path):
    lines = b"line\n" * 100
    path = tmp_path / journal.PACKED
    path.write_bytes(journal.packed(lines))
    assert path.read_bytes()[4:8] == bytes(4)  # where gzip writes the time
    assert journal.content_of(path) == lines


def test_a_verdict_that_is_current_says_so_and_others_lead_to_it(page):
    assert "Current." in page(f"runs/{{ceilings}}/{NORMS}").text
    old = page(f"runs/{{first}}/{NORMS}")
    assert "Not current." in old.text
    assert f"../../../experiments/{NORMS}/index.html" in old.links
    assert any(link.endswith(f"{NORMS}/index.html") and "/runs/" in link for link in old.links)


def test_a_verdict_keeps_the_data_of_its_run(world):
    of_run = data(world, f"runs/{{again}}/{NORMS}/data.json")
    assert of_run["evidence"]["digest"] == world[1]["again"]
    assert of_run["machine"]["torch"] == "2.12.0"
    assert of_run["claims"]["triton-rmsnorm-beats-torch-fused"]["status"] == "refuted"
    assert data(world, f"runs/{{first}}/{NORMS}/data.json")["claims"]["triton-rmsnorm-beats-torch-fused"]["status"] == (
        "supported"
    )


def test_a_verdict_page_has_claims_boundary_environment_and_policy(page):
    verdicts = page(f"runs/{{again}}/{NORMS}")
    assert {"claims", "claim-triton-rmsnorm-beats-torch-fused", "boundary", "provenance"} <= set(verdicts.ids)
    for word in (
        "Not measured",
        "of which one board was measured",
        f"policy {POLICY_VERSION}, today's",
        "torch 2.12.0",
        "slower",
    ):
        assert word in verdicts.text, word


def test_a_verdict_page_has_the_times_of_its_run(world, page):
    text = page(f"runs/{{again}}/{NORMS}").text
    times = text[text.index("Every implementation at every case") : text.index("What this does and does not show")]
    measured = [
        cell["scopes"]["device_cold"]["p50_seconds"]
        for profiles in data(world, f"runs/{{again}}/{NORMS}/data.json")["cells"].values()
        for cell in profiles.values()
        if "device_cold" in cell.get("scopes", {})
    ]
    assert len(measured) > 1
    assert all(format.brief_microseconds(seconds) in times for seconds in measured)


def test_a_changed_verdict_tells_what_else_changed(page):
    text = page(f"runs/{{again}}/{NORMS}").text
    assert re.search(r"It was “faster” in\s+first,\s+an earlier\s+run on this GPU model", text)
    assert "torch 2.11.0 → 2.12.0" in text


def test_times_of_one_card_are_divided_and_those_of_two_are_not(world, page):
    same, other = page("compare/{first}-{again}"), page("compare/{again}-{elsewhere}")
    assert "The same card." in same.text
    assert "Newer / older" in same.text
    assert "Different machines." in other.text
    assert "Newer / older" not in other.text
    assert "Times, cell by cell" in same.text
    assert "Times, cell by cell" not in other.text
    assert "only times.csv has them" in other.text
    assert data(world, "compare/{again}-{elsewhere}/data.json")["experiments"][NORMS]["times"] == {}


def test_a_slower_kernel_has_moved_and_the_others_have_not(world):
    times = data(world, "compare/{first}-{again}/data.json")["experiments"][NORMS]["times"]
    moved = {profile for cells in times.values() for profile, time in cells.items() if time["moved"]}
    assert moved == {"triton-fused-rmsnorm"}
    ratio = times["rmsnorm-4096x4096-float16"]["triton-fused-rmsnorm"]
    assert ratio["ratio"] == pytest.approx(1.5, rel=0.02)


def test_a_pair_shows_only_the_fields_that_differ(page):
    text = page("compare/{first}-{again}").text
    assert "2.12.0" in text
    assert "580.159.04" not in text
    assert "Changed." in text


def test_a_cpu_beside_a_gpu_says_that_nothing_is_comparable(page):
    text = page("compare/{elsewhere}-{cpu}").text
    assert "A CPU and a GPU." in text
    assert "Newer / older" not in text


def test_every_pair_of_few_runs_is_listed(page):
    index = page("compare")
    assert len({link for link in index.links if "compare/" in link and link.count("/") == 3}) == 7


def test_no_figure_of_these_pages_is_without_its_datum(world):
    site, _ = world
    pages = [path for room in ("runs", "compare") for path in (site / room).rglob("index.html")]
    assert len(pages) > 15
    read = functools.cache(lambda path: json.loads(path.read_text()))
    for path in pages:
        for value, source in Page(path).figures:
            file, _, pointer = source.partition("#")
            node = read((path.parent / file).resolve())
            for name in pointer.split("/")[1:]:
                node = node[int(name)] if isinstance(node, list) else node[name]
            assert str(node) == value, (path, source)


def test_names_of_machines_stay_inside_the_site_and_names_that_are_no_slugs_out_of_it(tmp_path):
    evidence, decisions = tmp_path / "evidence", tmp_path / "decisions"
    decisions.mkdir()
    plan = plan_of("hostile")
    publish(evidence, write_run(tmp_path / "hostile", plan, records_of(plan, TIMES, on=machine(gpu="../<i>GPU</i>"))))
    build_site(tmp_path / "site", decisions, evidence)
    page = Page(tmp_path / "site" / "runs" / "index.html")
    assert "../<i>GPU</i>" in page.text
    assert "i" not in page.tags
    evil = dataclasses.replace(plan, experiments=(dataclasses.replace(plan.experiments[0], name="../../evil"),))
    publish(tmp_path / "others", write_run(tmp_path / "evil", evil, records_of(evil, TIMES)))
    with pytest.raises(RunError, match=r"'\.\./\.\./evil' is not a plain slug"):
        build_site(tmp_path / "site", decisions, tmp_path / "others")
