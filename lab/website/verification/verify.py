"""A published site, computed again from its own raw samples: what anyone can do who has the site and this code.

Nothing that the site says is believed: runs are judged again from their journals, every file is made afresh and
compared byte by byte, the central statistics are computed a second time by other code, and every figure on every page
has to say what its datum holds. Nothing is taken from what earlier builds kept, and nothing is kept.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.errors import LabError
from lab.verdict.judge_run import UNMEASURED
from lab.website.addresses import verdict_folder
from lab.website.data import publication_log
from lab.website.data.promoted import EVIDENCE, Evidence
from lab.website.data.publication_log import Log, read_log
from lab.website.files import inventory
from lab.website.site import BUILDERS, DECISIONS, gather, write_site
from lab.website.verification.again import recomputed
from lab.website.verification.figures import Data, check_page, count_figures
from lab.website.verification.files import (
    Mismatch,
    apart,
    check_manifest,
    holds_samples,
    load_published,
    opened,
    stated_digests,
)
from lab.website.verification.log_check import missing, published_log
from lab.website.verification.signatures import check_signatures

Say = Callable[[str], None]
SHOWN, BEFORE = 60, 20  # characters of a line that differs, and of them those that agree


def rebuilt(root: Path, evidence: Sequence[Evidence], decisions: Path, scratch: Path, log: Log = ()) -> Path:
    """The folder of a site of the same runs and for the same address. LabError where it cannot be built."""
    context = gather(evidence, decisions, _address(root), scratch / "kept", log)
    context = replace(context, samples=holds_samples(root))  # its pages say so
    write_site(context, BUILDERS, scratch / "site", scratch / "remembered")
    return scratch / "site"


def _address(root: Path) -> str:
    path = root / inventory.SITEMAP
    return inventory.address_in(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else ""


def unlike(root: Path, made: Path) -> Iterator[Mismatch]:
    """Where a site is not what was made afresh; data value by value, other files by the first line that differs. The
    manifest is checked by itself."""
    present, expected = inventory.read_files(root), inventory.read_files(made)
    for name in sorted(expected.keys() - present.keys()):
        yield Mismatch(name, "is missing; it follows from the samples")
    for name in sorted(present.keys() - expected.keys()):
        yield Mismatch(name, "is published, and nothing makes it")
    for name in sorted(present.keys() & expected.keys()):
        if present[name] != expected[name]:
            yield from _apart(name, (root / name).read_bytes(), (made / name).read_bytes())


def _apart(name: str, published: bytes, computed: bytes) -> Iterator[Mismatch]:
    if name.endswith(".json"):
        try:
            values = list(apart(json.loads(published), json.loads(computed), f"{name}#"))
        except (ValueError, RecursionError) as problem:
            values = [Mismatch(name, f"is damaged: {problem}")]
        yield from values or [Mismatch(name, "has the values that are computed, written otherwise")]
        return
    lines = [content.decode("utf-8", "replace").splitlines() for content in (published, computed)]
    pairs = zip(*lines, strict=False)
    number, pair = next(((at, pair) for at, pair in enumerate(pairs, 1) if pair[0] != pair[1]), (0, ("", "")))
    if not number:
        yield Mismatch(name, f"has {len(lines[0])} lines, computed are {len(lines[1])}, or they end otherwise")
        return
    here = next((at for at, (a, b) in enumerate(zip(*pair, strict=False)) if a != b), min(map(len, pair)))
    start = max(0, here - BEFORE)
    said, instead = (repr(text[start : start + SHOWN]) for text in pair)
    yield Mismatch(f"{name}, line {number}", f"published is {said}, computed {instead}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """What was looked at, and everything that did not come out as published."""

    runs: int
    files: int
    pages: int
    figures: int
    differences: tuple[Mismatch, ...]
    unchecked: tuple[str, ...] = ()  # what could not be computed again, and why


def verify(
    site: Path,
    say: Say,
    decisions: Path = DECISIONS,
    known: Path = EVIDENCE / publication_log.NAME,
    signers: Path | None = None,
) -> Verified:
    """Compute a site again. EvidenceError where it cannot be read at all.

    known: the log of this checkout's publications. signers: who has to have signed every run, as OpenSSH lists them.
    """
    with opened(site) as root, TemporaryDirectory(prefix="lab-verify-") as scratch:
        say("comparing files with the manifest")
        mismatches = list(check_manifest(root))
        unchecked: list[str] = []
        evidence = load_published(root, mismatches, unchecked, say)
        mismatches += check_signatures(root, signers, say)
        log = published_log(root, mismatches)
        files = 0
        digests = {item.digest for item in evidence}
        mismatches += missing(log, read_log(known), digests | stated_digests(root) if unchecked else digests)
        if unchecked:
            unchecked.append("all pages and data: they follow from every run together")
        else:
            say("making every file afresh from what the samples give")
            try:
                made = rebuilt(root, evidence, decisions, Path(scratch), log)
            except (LabError, *UNMEASURED) as problem:
                what = "" if isinstance(problem, LabError) else f"{type(problem).__name__}: "
                mismatches.append(Mismatch(str(site), f"cannot be made from its samples: {what}{problem}"))
            else:
                files = sum(path.is_file() for path in made.rglob("*"))
                mismatches += unlike(root, made)
                say("computing times and speed-ups a second time")
                mismatches += _recomputed(made, evidence)
        pages, figures = _followed(root, mismatches, say)
        return Verified(
            runs=len(evidence), files=files, pages=pages, figures=figures,
            differences=tuple(dict.fromkeys(mismatches)), unchecked=tuple(unchecked),
        )  # fmt: skip


def _recomputed(made: Path, evidence: Sequence[Evidence]) -> Iterator[Mismatch]:
    """Every result of every run, computed a second time."""
    for item in evidence:
        for result in item.run.experiments:
            name = f"{verdict_folder(item.digest, result.plan.name)}/data.json"
            yield from recomputed(result, json.loads((made / name).read_text(encoding="utf-8")), name)


def _followed(root: Path, differences: list[Mismatch], say: Say) -> tuple[int, int]:
    """How many pages and figures there are; a figure that does not say its datum is added to `differences`."""
    pages = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.html") if path.is_file())
    say(f"following the figures of {len(pages)} pages")
    data, figures = Data(root), 0
    for page in pages:
        html = (root / page).read_text(encoding="utf-8", errors="replace")
        figures += count_figures(html)
        differences += check_page(page, html, data)
    return len(pages), figures
