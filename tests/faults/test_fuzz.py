"""Every reader of files, given random damage: it returns a result or an error of the lab, and never a traceback.

A few hundred files each, always the same ones. LAB_FUZZ_SECONDS=600 looks for new ones instead, so many seconds in
all; what it finds is given to `tried` as a case that stays.
"""

import json
import os
import random
import shutil
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from factory import plan_of, publish, records_of, small_experiment, write_run
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from lab.definition import plan_file
from lab.definition.plan_file import load_plan
from lab.errors import LabError
from lab.evidence import journal
from lab.evidence.chain import checksum_of
from lab.evidence.codec import canonical
from lab.evidence.source import ROOT
from lab.kernels.tuned import read_tuned
from lab.overview import describe_verdicts
from lab.profiler.raw_page import read_kernels
from lab.verdict.judge_run import load_run
from lab.website.data.promoted import NAME as EVIDENCE
from lab.website.data.promoted import load_evidence
from lab.website.data.publication_log import parse_log
from lab.website.decision_records import load_decisions
from lab.website.verification.files import opened

SECONDS = float(os.environ.get("LAB_FUZZ_SECONDS", "0"))
READERS = 8
EXAMPLES = 150  # at a time
ODD = (
    b"", b"\0", b"\xff", b"[" * 2000, b'"' * 99, b"-", b"NaN", b"1e999", b"9" * 400, b"9" * 5000, b"null", b"\\ud800",
    b"-1", b"0", b"{}", b"[]", b"true", b'""', b"\n", b"\r", b",", b"'=", b"\x1b[2J", b"2026-99-99", b"!!python/none",
    b"&a [*a]", b"\xe2\x80\xae",
)  # fmt: skip
Read = Callable[[bytes], object]


def spoilt(sound: bytes) -> st.SearchStrategy[bytes]:
    """A sound file with a few places cut out, doubled, swapped or replaced."""
    place = st.floats(0, 1)
    deed = st.sampled_from(("cut", "double", "replace", "flip", "end"))
    change = st.tuples(deed, place, st.integers(1, 60), st.one_of(st.sampled_from(ODD), st.binary(max_size=8)))
    return st.lists(change, min_size=1, max_size=4).map(lambda changes: _changed(sound, changes))


def _changed(content: bytes, changes: list[tuple[str, float, int, bytes]]) -> bytes:
    for deed, share, length, with_what in changes:
        at = int(share * len(content))
        piece = content[at : at + length]
        instead = {
            "cut": b"", "double": piece * 2, "replace": with_what, "end": with_what,
            "flip": bytes(byte ^ 1 for byte in piece),
        }[deed]  # fmt: skip
        content = content[:at] + instead + (b"" if deed == "end" else content[at + length :])
    return content


def tried(sound: bytes, read: Read, *examples: bytes) -> None:
    """Read spoilt files; whatever is raised but an error of the lab's is a failure."""

    def attempt(content: bytes) -> None:
        with suppress(LabError):
            read(content)

    for content in (sound, b"", *ODD, *examples):
        attempt(content)
    calm = settings(
        max_examples=EXAMPLES, derandomize=not SECONDS, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    search = calm(given(spoilt(sound))(attempt))
    search()
    ends = time.monotonic() + SECONDS / READERS
    while time.monotonic() < ends:
        seed(random.getrandbits(64))(search)()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan_ = plan_of("night-3", experiments=[small_experiment()], include=[], sweeps=3)
    records = records_of(plan_, {"plain": 40e-6, "fast": 20e-6})
    return write_run(tmp_path_factory.mktemp("fuzzed") / "night-3", plan_, records)


@pytest.fixture
def copy(measured: Path, tmp_path: Path) -> Path:
    shutil.copytree(measured, tmp_path / "night-3")
    return tmp_path / "night-3"


def judged(directory: Path) -> None:
    for line in describe_verdicts(load_run(directory)):
        assert line


def test_journals(copy: Path) -> None:
    def read(content: bytes) -> None:
        (copy / journal.NAME).write_bytes(content)
        judged(copy)

    tried((copy / journal.NAME).read_bytes(), read)


def test_journals_whose_lines_are_whole_and_say_what_nobody_measured(copy: Path) -> None:
    """Checksums, numbers and links are right again, so that what is judged is the odd record itself."""
    path = copy / journal.NAME
    sound = path.read_bytes()

    def read(content: bytes) -> None:
        before, lines = "", []
        for number, line in enumerate(content.split(b"\n")[:-1], start=1):
            text = line.decode(errors="replace").partition(" ")[2]
            with suppress(ValueError, RecursionError):
                data = json.loads(text)
                if isinstance(data, dict) and "line" in data:
                    text = canonical({key: value for key, value in data.items() if key != "sha256"} | {
                        "line": number, "previous": before,
                    })  # fmt: skip
            before = checksum_of(text)
            lines.append(f"{before} {text}\n")
        path.write_text("".join(lines), encoding="utf-8", errors="replace")
        judged(copy)

    tried(sound, read)


def test_plans(copy: Path) -> None:
    def read(content: bytes) -> None:
        (copy / plan_file.NAME).write_bytes(content)
        load_plan(copy)

    tried((copy / plan_file.NAME).read_bytes(), read, b'{"schema": 1e0}', b'{"schema": [1]}')


def test_manifests_of_evidence(copy: Path, tmp_path: Path) -> None:
    publish(tmp_path / "evidence", copy)
    path = tmp_path / "evidence" / "night-3" / EVIDENCE

    def read(content: bytes) -> None:
        path.write_bytes(content)
        load_evidence(tmp_path / "evidence")

    tried(path.read_bytes(), read, b'{"schema": 1}', b'{"schema": 1, "files": []}')


def test_tables_of_the_profiler() -> None:
    def read(content: bytes) -> None:
        with suppress(ValueError):  # what its reader is to raise: the run goes on without counters
            for kernels in read_kernels(content.decode(errors="replace")).values():
                canonical([[kernel.duration_seconds, dict(kernel.stalls)] for kernel in kernels])

    table = (ROOT / "tests" / "fixtures" / "ncu-raw.csv").read_bytes()
    tried(table, read, b'"' + b"a" * 200_000 + b'"\n', b'"Kernel Name"\n"\0"\n')


def test_decision_records(tmp_path: Path) -> None:
    def read(content: bytes) -> None:
        (tmp_path / "0001-fused-rmsnorm.md").write_bytes(content)
        load_decisions(tmp_path)

    sound = (ROOT / "experiments" / "decisions" / "0001-fused-rmsnorm.md").read_bytes()
    tried(sound, read, b"---\ndate: 2026-99-99\n---\n", b"---\n" + b"[" * 9999 + b"\n---\n", b"---\n? [a]\n---\n")


def test_zips(tmp_path: Path) -> None:
    path = tmp_path / "site.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("site/index.html", "<p>" + "".join(random.Random(1).choices("abc", k=200)))
        packed.writestr("site/runs/a/plan.json", "{}")

    def read(content: bytes) -> None:
        path.write_bytes(content)
        with opened(path):
            pass

    tried(path.read_bytes(), read)


def test_tuned_files_and_logs(tmp_path: Path) -> None:
    key = {
        "gpu": "NVIDIA H100", "operator": "rmsnorm", "shapes": "1024", "dtype": "float16", "triton": "3", "source": "a"
    }  # fmt: skip
    tuned = {"schema": 1, "entries": [{"key": key, "launch": {"constants": {"B": 1}, "num_warps": 4, "num_stages": 2}}]}
    path = tmp_path / "tuned.json"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        with suppress(ValueError):  # what its reader is to raise: kernels are launched by their rules
            read_tuned(path)
        parse_log(content.decode(errors="replace"), "log.jsonl")

    tried(json.dumps(tuned).encode(), read, b'{"schema": 1, "entries": [{"launch": {"num_warps": 1e999}}]}')
