"""`lab verify`: a site agrees with its raw samples, or the place where it does not is named."""

import gzip
import json
import math
import re
import shutil
import time
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from factory import SWEEP_FLAG, busy, measured_run, plan_of, records_of, seen_as, write_run
from test_site import EXPERIMENT, TIMES, publish

from lab.cli import main
from lab.commands.publishing import MOST_TOLD
from lab.errors import EvidenceError
from lab.evidence import journal
from lab.evidence.record import Cell, Control, Sustained
from lab.verdict import judge, statistics, sustained, widening
from lab.verdict.cells import ALL_VOID
from lab.verdict.judge_run import judge_run, load_run
from lab.website.data.published import experiment_data
from lab.website.site import build_site
from lab.website.verification import files
from lab.website.verification import verify as verification
from lab.website.verification.again import by_ranks, deciding, interval, p50_and_p95, recomputed, student_quantile
from lab.website.verification.figures import Data, check_page, misread
from lab.website.verification.files import check_manifest, load_published
from lab.website.verification.verify import verify

DATA = "experiments/normalization-fusion/data.json"
CASE = "rmsnorm-4096x4096-float16"
CELL = ("cells", CASE, "torch-fused")

pytestmark = pytest.mark.usefixtures("few_experiments")
SHOWN = ("normalization-fusion", "gpu-ceilings", "headline-tables")  # each test verifies all pages


@pytest.fixture(scope="module")
def decisions(tmp_path_factory):
    """A folder of no decision records."""
    return tmp_path_factory.mktemp("decisions")


@pytest.fixture(scope="module")
def published(tmp_path_factory, decisions):
    """A site with the raw samples of its only run."""
    folder = tmp_path_factory.mktemp("verified")
    publish(folder / "evidence", measured_run(folder, TIMES, sweeps=3))
    build_site(folder / "site", decisions, folder / "evidence", base_url="https://lab.example/a&b", samples=True)
    return folder / "site"


@pytest.fixture
def site(published, tmp_path):
    """A copy to spoil."""
    shutil.copytree(published, tmp_path / "site")
    return tmp_path / "site"


@pytest.fixture
def differences_of(decisions):
    """What verifying finds, a line a difference; the manifest, which hashes what a test spoils, apart."""

    def verified(site):
        messages = map(str, verify(site, lambda _: None, decisions).differences)
        return [line for line in messages if "manifest.json" not in line]

    return verified


def raw(site, name):
    return next(site.glob(f"runs/*/{name}"))


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_site_agrees_with_its_own_samples(published, decisions):
    verified_site = verify(published, lambda _: None, decisions)
    assert verified_site.differences == ()
    assert verified_site.runs == 1
    assert verified_site.pages >= 10
    assert verified_site.figures > 300


def test_a_site_without_samples_agrees_with_the_evidence_beside_it(tmp_path, decisions):
    evidence = tmp_path / "experiments" / "evidence"
    publish(evidence, measured_run(tmp_path, TIMES, sweeps=3, include=[SWEEP_FLAG]))
    build_site(tmp_path / "site", decisions, evidence)
    assert not list(tmp_path.glob("site/runs/*/journal.jsonl.gz"))
    verified_site = verify(tmp_path / "site", lambda _: None, decisions)
    assert (verified_site.differences, verified_site.unchecked, verified_site.runs) == ((), (), 1)

    path = tmp_path / "site" / DATA
    path.write_text(path.read_text().replace('"status":"refuted"', '"status":"supported"'))
    assert verify(tmp_path / "site", lambda _: None, decisions).differences

    shutil.rmtree(tmp_path / "experiments")
    verified_site = verify(tmp_path / "site", lambda _: None, decisions)
    assert verified_site.runs == 0
    assert "samples are neither in the site nor in experiments/evidence/" in verified_site.unchecked[0]
    assert verified_site.unchecked[-1].startswith("all pages and data")


def test_verify_says_what_it_could_not_check_and_does_not_exit_with_0(tmp_path, decisions, capsys):
    publish(tmp_path / "evidence", measured_run(tmp_path, TIMES, sweeps=3))
    build_site(tmp_path / "site", decisions, tmp_path / "evidence")
    assert main(["verify", str(tmp_path / "site")]) == 2
    assert "not checked: runs/" in capsys.readouterr().out


def test_a_profile_without_a_valid_cold_sample_is_shown_with_its_other_times(tmp_path, decisions):
    """As a whole model that is launched kernel by kernel: its launches fill the GPU's queue."""

    def without_cold(record):
        if not isinstance(record, Cell) or record.profile != "torch-fused" or not record.timings:
            return record
        cold, *others = record.timings
        cold = replace(cold, rounds=((),) * len(cold.rounds), void=(cold.void[0] + 10,) * len(cold.rounds))
        return replace(record, timings=(cold, *others))

    plan = plan_of(sweeps=3)
    publish(tmp_path / "evidence", write_run(tmp_path / "run", plan, map(without_cold, records_of(plan, TIMES))))
    build_site(tmp_path / "site", decisions, tmp_path / "evidence")
    assert verify(tmp_path / "site", lambda _: None, decisions, tmp_path / "evidence").differences == ()
    page = (tmp_path / "site" / "experiments/normalization-fusion/cases" / CASE / "index.html").read_text()
    assert ALL_VOID in page
    cell = json.loads((tmp_path / "site" / DATA).read_text())["cells"][CASE]["torch-fused"]
    assert "p50_seconds" not in cell
    assert "eager" in cell["scopes"]


def test_a_text_that_does_not_say_its_value_is_named(site, differences_of):
    page = site / EXPERIMENT
    source = re.search(r'<data value="[\d.e-]+" data-src="(/claims/[^"]+/ratio)">', page.read_text())
    text = re.sub(rf'(data-src="{re.escape(source[1])}">)[^<]+', r"\g<1>9.99×", page.read_text(), count=1)
    page.write_text(text)
    text, figure = differences_of(site)
    assert figure.startswith(f"{EXPERIMENT} → data.json#{source[1]}: says '9.99×'")
    assert text.startswith(f"{EXPERIMENT}, line ")
    assert "9.99×" in text


def test_a_value_that_is_changed_in_page_and_data_alike_is_named_by_its_pointer(site, differences_of):
    data = json.loads((site / DATA).read_text())
    cell = data["cells"][CASE]["torch-fused"]
    was = cell["p50_seconds"]
    cell["p50_seconds"] = 1e-6
    (site / DATA).write_text(json.dumps(data))
    pointer = "/" + "/".join((*CELL, "p50_seconds"))
    assert f"{DATA}#{pointer}: published is 1e-06, computed {was}" in differences_of(site)


def test_a_verdict_that_its_samples_do_not_give_is_named(site, differences_of):
    change(site / DATA, '"status":"refuted"', '"status":"supported"')
    assert any(line.endswith('/status: published is "supported", computed "refuted"') for line in differences_of(site))


def test_a_figure_that_points_nowhere_is_named(site, differences_of):
    change(site / EXPERIMENT, '"/evidence/rounds"', '"/evidence/pounds"')
    assert "data.json#/evidence/pounds: points at nothing" in differences_of(site)[1]


def test_samples_that_were_altered_are_named_and_what_follows_from_them_too(site, differences_of):
    path = raw(site, "journal.jsonl.gz")
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    path.write_bytes(gzip.compress("".join(line for line in lines if '"torch-compile"' not in line).encode()))
    messages = differences_of(site)
    assert any("journal.jsonl: is not the file whose SHA-256 evidence.json gives" in line for line in messages)
    assert any(line.startswith(f"{DATA}#/cells/") and "torch-compile" in line for line in messages)


@pytest.mark.parametrize(
    ("name", "spoil", "says"),
    [
        ("journal.jsonl.gz", lambda path: path.write_bytes(path.read_bytes()[:-500]), "cannot be unpacked"),
        ("journal.jsonl.gz", lambda path: path.write_bytes(b"no gzip"), "cannot be unpacked"),
        ("journal.jsonl.gz", Path.unlink, "holds no journal.jsonl and no journal.jsonl.gz"),
        ("plan.json", Path.unlink, "No such file or directory: 'runs/"),
        ("plan.json", lambda path: path.write_text("{"), "not valid JSON"),
        ("evidence.json", lambda path: path.write_text("[]"), "holds no"),
    ],
    ids=["torn", "no gzip", "no journal", "no plan", "broken plan", "broken evidence"],
)
def test_a_run_that_cannot_be_read_is_named_and_not_passed_over(site, name, spoil, says):
    spoil(raw(site, name))
    messages = []
    assert load_published(site, messages, [], lambda _: None) == ()
    (line,) = map(str, messages)
    assert line.startswith("runs/")
    assert says in line


def test_a_line_that_is_missing_from_a_journal_is_named_with_its_place(site):
    path = raw(site, journal.PACKED)
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(lines[:4] + lines[5:])))
    messages = []
    load_published(site, messages, [], lambda _: None)
    expected = "journal.jsonl.gz, line 5: is line 6 of the journal as it was written: line 5 is missing before it"
    assert any(expected in str(each) for each in messages)


def test_a_run_that_nobody_can_have_measured_is_named_and_ends_nothing(site, tmp_path):
    path = raw(site, "journal.jsonl.gz")
    (tmp_path / "was").write_bytes(gzip.decompress(path.read_bytes()))
    records = journal.read(tmp_path / "was").records
    strange = [replace(each, profile="nobody") if isinstance(each, Control) else each for each in records]
    journal.append(tmp_path / "is", *strange)
    path.write_bytes(gzip.compress((tmp_path / "is").read_bytes()))
    messages = []
    load_published(site, messages, [], lambda _: None)
    assert any("cannot be judged" in str(line) and "(KeyError" in str(line) for line in messages)


def test_a_site_without_samples_cannot_be_verified(site):
    shutil.rmtree(site / "runs")
    with pytest.raises(EvidenceError, match="without raw samples nothing can be computed again"):
        verify(site, lambda _: None)


def falsify(site):
    """Lie in as many ways as there are kinds of files; returns the places."""
    lies = {
        "a sentence's verdict": (EXPERIMENT, "refuted", "supported"),
        "a curve": (EXPERIMENT, 'viewBox="0 0 ', 'viewBox="1 0 '),
        "a figure's pointer": (EXPERIMENT, '"/evidence/rounds"', '"/evidence/block"'),
        "a boundary": ("experiments/normalization-fusion/cases/" + CASE + "/index.html", "H100", "H200"),
        "a count": ("index.html", "Kernel Evidence Lab", "Kernel Evidence lab"),
        "a table": ("experiments/normalization-fusion/cells.csv", ",3,", ",4,"),
        "the feed": ("feed.atom", "first verdicts", "verdicts"),
        "what is searched": ("search/index.js", "Normalization", "normalization"),
        "a rule": ("policy/index.html", "1.20", "1.50"),
        "a schema": ("schemas/experiment.json", "number", "string"),
        "a style": ("assets/style.css", "{", "{ "),
        "an address": ("sitemap.xml", "lab.example/a&amp;b/policy", "lab.example/policy"),
    }
    for name, old, new in lies.values():
        change(site / name, old, new)
    (site / "trust" / "index.html").unlink()
    (site / "more.html").write_text('<data value="1" data-src="/etc/x.json#/a">1</data>')
    pages = [site / "glossary" / "index.html", site / "methods" / "index.html"]
    first, second = (path.read_bytes() for path in pages)
    pages[0].write_bytes(second)
    pages[1].write_bytes(first)
    swapped = [path.relative_to(site).as_posix() for path in pages]
    return [name for name, _, _ in lies.values()] + swapped + ["trust/index.html", "more.html"]


def test_every_page_and_file_is_held_against_one_made_afresh(site, differences_of):
    places = falsify(site)
    messages = differences_of(site)
    for name in places:
        assert any(re.match(rf"{re.escape(name)}(, line \d+|#\S*)?: ", line) for line in messages), name


def test_files_are_held_against_the_manifest(site):
    change(site / "index.html", "</h1>", " </h1>")
    (site / "extra.txt").write_text("x")
    (site / "link").symlink_to("/etc/hostname")
    change(site / "manifest.json", '"policy/index.html"', '"gone.html"')
    messages = [str(difference) for difference in check_manifest(site)]
    assert "index.html: is not the file whose SHA-256 manifest.json gives" in messages
    assert "gone.html: is missing; manifest.json lists it" in messages
    assert "policy/index.html: is not listed in manifest.json" in messages
    assert "extra.txt: is not listed in manifest.json" in messages
    assert "link: is a link or a device, and no file of a site" in messages


def test_a_manifest_that_says_more_than_hashes_is_named_and_so_is_none(site):
    change(site / "manifest.json", '"bytes": ', '"bytes": 1')
    assert [mismatch.place for mismatch in check_manifest(site)] == ["manifest.json"]
    (site / "manifest.json").unlink()
    assert [str(mismatch) for mismatch in check_manifest(site)] == [
        "manifest.json: is missing; it lists every file of a site"
    ]


def test_a_digest_or_a_field_that_the_samples_do_not_have_is_named(site, differences_of):
    """The digest becomes part of paths, here and on a reader's disk."""
    path = raw(site, "evidence.json")
    change(path, '"digest": "', '"digest": "../../../../')
    change(path, "{", '{"by": "somebody", ')
    messages = differences_of(site)
    assert any("evidence.json#/digest: published is" in line for line in messages)
    assert any("evidence.json#/by: is published, and nothing computes it" in line for line in messages)


def zipped(site, archive, folder="site"):
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in site.rglob("*"):
            packed.write(path, Path(folder) / path.relative_to(site))
    return archive


def test_a_zip_is_a_site_too(published, decisions, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(verification, "verify", partial(verify, decisions=decisions))
    archive = zipped(published, tmp_path / "site.zip")
    assert main(["verify", str(archive)]) == 0
    assert "1 run judged again" in capsys.readouterr().out
    archive.write_bytes(archive.read_bytes()[:-4000])
    assert main(["verify", str(archive)]) == 2
    assert "cannot be unpacked" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("names", "says"),
    [
        (("../index.html",), "leads out of it"), (("/index.html",), "leads out of it"),
        (("a/..\\b",), "leads out of it"), (("C:/b",), "leads out of it"), (("index.html", "index.html"), "twice"),
        (("index.html",), "holds no index.html"),
    ],
    ids=["parent", "root", "windows", "drive", "twice", "a folder"],
)  # fmt: skip
def test_a_zip_that_is_not_what_it_seems_is_refused(tmp_path, names, says):
    archive = tmp_path / "odd.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name in names:
            packed.writestr(name + "/x" * (says == "holds no index.html"), "x")
    with pytest.raises(EvidenceError, match=says):
        verify(archive, lambda _: None)


@pytest.mark.parametrize("order", [("site", "another"), ("another", "site")], ids=["first", "last"])
def test_a_zip_that_holds_more_than_a_site_is_refused_in_any_order(published, tmp_path, order):
    archive = tmp_path / "two.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name in order:
            if name == "site":
                for path in published.rglob("*"):
                    packed.write(path, Path("site") / path.relative_to(published))
            else:
                packed.writestr("another/index.html", "<p>Buy mine.</p>")
    with pytest.raises(EvidenceError, match=r"holds '(site|another)' beside '(site|another)', which looks like a site"):
        verify(archive, lambda _: None)


def test_a_folder_that_holds_a_page_beside_a_site_is_refused(site, tmp_path):
    (tmp_path / "start.html").write_text("<p>Buy mine.</p>")
    with pytest.raises(EvidenceError, match=r"holds 'start\.html' beside 'site'"):
        verify(tmp_path, lambda _: None)


def test_what_acts_in_a_terminal_is_written_out(site, decisions, capsys, monkeypatch):
    monkeypatch.setattr(verification, "verify", partial(verify, decisions=decisions))
    (site / "\x1b[31mred\u202e.html").write_text("x")
    assert main(["verify", str(site)]) == 1
    output = capsys.readouterr().out
    assert "\\x1b[31mred\\u202e.html" in output
    assert "\x1b" not in output
    assert "\u202e" not in output


@pytest.mark.parametrize(
    "text", ["<a " * 100_000, "<b>" * 50_000 + "</a>" * 50_000, "<!--" * 100_000, '<a x="' * 100_000]
)
def test_a_page_that_a_parser_chokes_on_is_named_and_costs_no_minutes(text):
    """Each took minutes, and more than twice as long where the page is twice as long."""
    began = time.process_time()
    messages = list(check_page("index.html", f"<!doctype html>\n{text}", Data(Path())))
    assert time.process_time() - began < 20
    assert bool(messages) is not text.startswith("<b>")
    assert all("index.html, line 2: holds a tag inside a tag" in str(line) for line in messages)


def test_a_zip_that_not_everybody_can_unpack_is_refused(tmp_path):
    archive = tmp_path / "odd.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr("index.html", "x")
    with pytest.raises(EvidenceError, match=r"holds 'index\.html' encrypted or packed in a way of its own"):
        verify(archive, lambda _: None)


def test_where_a_zip_has_no_room_to_be_unpacked_the_place_is_named_and_how_to_choose_another(tmp_path):
    archive = tmp_path / "long.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("x" * 300, "x")
    with pytest.raises(EvidenceError, match=r"unpacked into .*lab-verify-.* \(File name too long\); TMPDIR names"):
        verify(archive, lambda _: None)


def test_a_zip_or_a_journal_that_would_fill_the_disk_is_refused(site, tmp_path, differences_of, monkeypatch):
    monkeypatch.setattr(files, "MOST_UNPACKED_BYTES", 10_000)
    with pytest.raises(EvidenceError, match="would unpack to"):
        verify(zipped(site, tmp_path / "large.zip"), lambda _: None)
    monkeypatch.setattr(journal, "MOST_BYTES", 10_000)
    assert any("journal.jsonl.gz: unpacks to more than 10,000 bytes" in line for line in differences_of(site))


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_what_is_no_site_is_refused(tmp_path, capsys, name):
    (tmp_path / "empty").mkdir()
    assert main(["verify", str(tmp_path / name)]) == 2
    assert str(tmp_path / name) in capsys.readouterr().err


def test_the_command_lists_the_first_differences_and_counts_the_rest(site, decisions, capsys, monkeypatch):
    monkeypatch.setattr(verification, "verify", partial(verify, decisions=decisions))
    page = site / EXPERIMENT
    page.write_text(re.sub(r'(data-src="[^"]*">)[^<]+', r"\g<1>0.01", page.read_text()))
    assert main(["verify", str(site)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == MOST_TOLD + 2
    assert re.fullmatch(r"and \d+ more", lines[-2])
    assert re.search(r": \d+ differences$", lines[-1])


def test_help_teaches_what_is_compared(capsys):
    with pytest.raises(SystemExit):
        main(["verify", "--help"])
    text = capsys.readouterr().out
    assert all(word in text for word in ("manifest.json", "journal.jsonl.gz", "Exit status", "site.zip"))


# --- the second computation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (8, 2.306), (29, 2.045), (30, 2.042), (120, 1.980)],
)
def test_students_quantile_is_that_of_printed_tables(freedom, quantile):
    assert student_quantile(freedom) == pytest.approx(quantile, abs=5e-4)


def test_an_interval_by_hand():
    """Two sweeps of one round: logarithms 0.2 and 0.3, so a mean of 0.25 with 12.706 × 0.05 of the run and 1.96 × 0.4 ×
    0.0707 between sessions beside it, in quadrature."""
    baseline, subject = [[[1.2214028e-3]], [[1.3498588e-3]]], [[[1e-3]], [[1e-3]]]
    ratio, low, high = interval(baseline, subject, 0.0, 0.0015)
    assert (ratio, low, high) == pytest.approx((1.28403, 0.67860, 2.42959), rel=1e-4)


def test_the_interval_that_decides_by_hand():
    """With five sweeps Student's quantiles are 3.747 and 2.776."""
    low, high = deciding(2.0, 2 / 1.1, 2 * 1.1, 5)
    assert (low, high) == pytest.approx((2 / 1.1 ** (3.747 / 2.776), 2 * 1.1 ** (3.747 / 2.776)), rel=1e-4)


def test_the_clocks_step_widens_an_interval_that_is_narrower():
    """Nothing varies, and a step of a tenth of the shorter time leaves 7.8 % open on either side."""
    widened = interval([[[2e-6]], [[2e-6]]], [[[1e-6]], [[1e-6]]], 1e-7, 0.0015)
    half = math.hypot(math.log(1.078), 1.96 * 0.0015)
    assert widened == pytest.approx((2.0, 2 * math.exp(-half), 2 * math.exp(half)))


def test_a_control_and_a_single_draw_widen_an_interval():
    """Nothing varies: 0.1 % of the run and 1.96 × 0.15 % between sessions; 19.6 % more between draws, in quadrature;
    and what the control is off by beyond its own interval."""
    still = [[[2e-6]], [[2e-6]]], [[[1e-6]], [[1e-6]]], 0.0, 0.0015
    alone = math.hypot(0.001, 1.96 * 0.0015)
    assert interval(*still)[2] == pytest.approx(2 * math.exp(alone))
    assert interval(*still, one_draw=True)[2] == pytest.approx(2 * math.exp(math.hypot(alone, 0.196)))
    assert interval(*still, control=(-0.02, 0.005))[2] == pytest.approx(2 * math.exp(alone + 0.015))
    assert interval(*still, control=(0.004, 0.005)) == interval(*still)


def test_percentiles_by_hand():
    p50, p95 = p50_and_p95([[[float(number) for number in range(101)]], [[50.0, 52.0]]])
    assert (p50, p95) == (50.5, pytest.approx(94.9))
    assert p50_and_p95([[[1.0, 2.0]]])[1] is None


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    return measured_run(tmp_path_factory.mktemp("recomputed"), TIMES)


def recomputed_lines(directory):
    run = load_run(directory)
    (result,) = run.experiments
    return [str(mismatch) for mismatch in recomputed(result, experiment_data(result, run), DATA)]


def test_both_computations_agree(run_directory):
    assert recomputed_lines(run_directory) == []


@pytest.mark.parametrize(
    ("name", "bug", "where"),
    [
        ("median", lambda values: sorted(values)[len(values) // 2], "p50_seconds"),
        ("t_half_width", lambda values: 1.96 * float(values.std()) / len(values) ** 0.5, "high"),
        ("FEWEST_FOR_P95", 10**9, "p95_seconds"),
    ],
    ids=["upper median", "normal interval", "no p95"],
)
def test_a_bug_in_the_central_statistics_does_not_verify_itself(run_directory, monkeypatch, name, bug, where):
    monkeypatch.setattr(statistics, name, bug)
    assert any(
        f"/{where}: published is" in line and "computed again it is" in line for line in recomputed_lines(run_directory)
    )


@pytest.mark.parametrize(
    ("name", "value"), [("SESSION_SHARE", 2.0), ("SESSION_FLOOR", 0.005), ("NORMAL_QUANTILE", 3.0)]
)
def test_nor_does_one_in_what_widens_the_interval(run_directory, monkeypatch, name, value):
    monkeypatch.setattr(widening, name, value)
    assert any("/high: published is" in line for line in recomputed_lines(run_directory))


UNKNOWN = {"reasons": None, "violation_seconds": {}}


@pytest.mark.parametrize(
    ("seen", "name"),
    [
        ([{}, {"reasons": 0x4}], "POWER_LIMITED_SESSION_FLOOR"), ([UNKNOWN], "POWER_LIMITED_SESSION_FLOOR"),
        ([{}, {"reasons": None, "violation_seconds": {"power": 0.01}}], "POWER_LIMITED_SESSION_FLOOR"),
        ([{}], "BUSY_SESSION_FLOOR"), ([{}, {"violation_seconds": {"power": 0.005}}, UNKNOWN], "BUSY_SESSION_FLOOR"),
    ],
)  # fmt: skip
def test_nor_does_one_in_what_boards_differ_by_at_the_power_limit(seen, name, monkeypatch):
    """Nine sweeps that hardly differ, of a case of many operations for each byte."""
    plan = busy(plan_of(sweeps=9))
    records = seen_as(records_of(plan, TIMES, noise=0.0001), *seen)

    def lines():
        run = judge_run(plan, records)
        (result,) = run.experiments
        return [str(mismatch) for mismatch in recomputed(result, experiment_data(result, run), DATA)]

    assert lines() == []
    monkeypatch.setattr(widening, name, 0.02)
    assert any("/high: published is" in line for line in lines())


def test_nor_does_a_verdict_that_the_interval_does_not_bear(tmp_path, monkeypatch):
    near = {name: 1.022 * 20e-6 if name == "torch-baseline" else 20e-6 for name in TIMES}
    directory = measured_run(tmp_path, near)
    assert recomputed_lines(directory) == []
    monkeypatch.setattr(judge, "DECIDING_CONFIDENCE", 0.5)
    assert any("/status: is supported, with " in line for line in recomputed_lines(directory))


def test_nor_does_one_that_too_few_sweeps_rank(tmp_path, monkeypatch):
    near = {name: 1.05 * 20e-6 if name == "torch-baseline" else 20e-6 for name in TIMES}
    directory = measured_run(tmp_path, near, sweeps=3, noise=0.03)
    assert recomputed_lines(directory) == []
    monkeypatch.setattr(judge, "FEWEST_RANKED", 3)
    assert any("/status: is supported, with " in line for line in recomputed_lines(directory))


def test_nor_does_one_that_is_left_open_where_all_decides(tmp_path, monkeypatch):
    directory = measured_run(tmp_path, {name: 1.05 * 20e-6 if name == "torch-baseline" else 20e-6 for name in TIMES})
    monkeypatch.setattr(judge, "DECIDING_CONFIDENCE", 0.999999)
    assert any("/status: is inconclusive, with " in line for line in recomputed_lines(directory))


def test_what_the_ranks_of_sweeps_reach_by_hand():
    """With nine sweeps Student's quantiles are 2.896 and 2.306; boards may differ by 1.96 × 0.6 %, and the control by
    1.5 % beyond its own interval. Ranks that sum to 0, 1 and 2 come in 3 of 512 choices of signs, to 3 in 5: the third
    of the averages of two sweeps counts, which here is that of the lowest and the third."""
    effects = [math.log(ratio) for ratio in (1.1, 1.2, 1.21, 1.3, 1.3, 1.3, 1.3, 1.5, 2.0)]
    boards = (1.96 * 0.006 + 0.015) * 2.896 / 2.306
    ends = by_ranks(effects, 0.006, (0.02, 0.005), one_draw=False)
    third, third_highest = math.sqrt(1.1 * 1.21), math.sqrt(2.0 * 1.3)
    assert ends == pytest.approx((third * math.exp(-boards), third_highest * math.exp(boards)), rel=1e-4)
    assert by_ranks(effects, 0.006, (0.02, 0.005), one_draw=True) == (0.0, math.inf)
    assert by_ranks(effects[1:], 0.006, (0.0, 0.0), one_draw=False) == (0.0, math.inf)


def test_a_verdict_by_the_ranks_of_sweeps_is_borne_out(tmp_path):
    """Sweeps scatter so that their interval leaves 1.15 open, and nearly all are above the threshold."""
    near = {name: 1.15 * 20e-6 if name == "torch-baseline" else 20e-6 for name in TIMES}
    directory = measured_run(tmp_path, near, sweeps=9, noise=0.3, seed=2)
    verdicts = [v for c in load_run(directory).experiments[0].claims for v in c.verdicts.values()]
    assert any("typical sweep" in verdict.mark for verdict in verdicts)
    assert recomputed_lines(directory) == []


# --- texts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "pointer"),
    [
        ("23.61", 2.36123e-5, "/cells/a/p50_seconds"), ("23.61 µs", 2.36123e-5, "/p50_seconds"),
        ("1.334×", 1.33399, "/ratio"), ("4,930 GB/s", 4.93e12, "/bytes_per_second"), ("989", 9.894e14 - 5e11,
        "/flops_per_second/float16"), ("3.35", 3.352e12, "/bytes_per_second"), ("92.4", 0.92413, "/attained"),
        ("91.2 % DRAM", 91.23, "/dram_percent"), ("3%", 0.0312, "/spoiled_share"), ("−0.31", -0.312e-6,
        "/distance_seconds"), ("1,024", 1024, "/rows"), ("supported", "supported", "/status"),
        ("17", 17, "/counts/cases"),
        ("67.1", 67108864, "/least_bytes"), ("1980", 1.98e9, "/lowest_sm_hertz"),
    ],
)  # fmt: skip
def test_a_text_says_its_value(text, value, pointer):
    assert misread(text, [{}, value], pointer) == ""


@pytest.mark.parametrize(
    ("text", "value", "pointer"),
    [
        ("23.62", 2.36123e-5, "/cells/a/p50_seconds"), ("23.61 ms", 2.36123e-5, "/p50_seconds"),
        ("1.335×", 1.33399, "/ratio"), ("133×", 1.33399, "/ratio"), ("0.00", 2e-5, "/p50_seconds"),
        ("–", 1.0, "/ratio"),
        ("refuted", "supported", "/status"), ("1.33 to 1.50", 1.33, "/ratio"), ("18", 17, "/counts/cases"),
    ],
)  # fmt: skip
def test_a_text_that_says_something_else(text, value, pointer):
    assert "its datum" in misread(text, [{}, value], pointer) or "not in its data" in misread(
        text, [{}, value], pointer
    )


def test_both_ends_of_an_interval_are_held_against_the_data():
    around = {"low": 1.3312, "high": 1.3371}
    assert misread("[1.331, 1.337]", [{}, around, 1.3312], "/ratio/low") == ""
    assert "1.338 is not in its data" in misread("[1.331, 1.338]", [{}, around, 1.3312], "/ratio/low")


@pytest.fixture(scope="module")
def run_back_to_back(tmp_path_factory):
    """A run whose first sweep replayed a graph back to back, and could not capture another."""
    lasting = {
        "torch-fused": Sustained(
            batch_seconds=(2e-5, 2.1e-5, 2.5e-5, 2.7e-5), calls_per_batch=2500, power_watts=696.0,
            spin_hertz=(1.9e9, 1.5e9, 1.4e9, 1.38e9),
        ),
        "torch-baseline": Sustained(reason="it cannot be captured"),
    }  # fmt: skip

    def with_lasting(record):
        first = isinstance(record, Cell) and record.case == CASE and record.sweep == 0
        return replace(record, sustained=lasting.get(record.profile)) if first else record

    plan = plan_of(sweeps=3)
    return write_run(tmp_path_factory.mktemp("back-to-back") / "run", plan, map(with_lasting, records_of(plan, TIMES)))


def test_a_rate_back_to_back_is_published_and_verified(run_back_to_back, tmp_path, decisions):
    publish(tmp_path / "evidence", run_back_to_back)
    build_site(tmp_path / "site", decisions, tmp_path / "evidence")
    assert verify(tmp_path / "site", lambda _: None, decisions, tmp_path / "evidence").differences == ()
    page = (tmp_path / "site" / "experiments/normalization-fusion/cases" / CASE / "index.html").read_text()
    assert "Back to back" in page
    assert "once each, without a pause except" in page
    assert "as the last batch began. Spaced: p50 of the same graph over all sweeps." in page
    assert "it cannot be captured" in page


def test_a_rate_back_to_back_is_computed_again_from_its_batches(run_back_to_back, monkeypatch):
    assert recomputed_lines(run_back_to_back) == []
    monkeypatch.setattr(sustained, "statistics", SimpleNamespace(median=max))
    lines = [line for line in recomputed_lines(run_back_to_back) if "/sustained/" in line]
    assert "torch-fused/sustained/seconds: published is 2.7e-05, computed again it is 2.6" in lines[0]
    assert "sustained/flops_per_second" in lines[1]
