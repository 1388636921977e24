"""A published site, computed again from its own raw samples: what anyone can do who has the site and this code.

Nothing that the site says is believed: runs are judged again from their journals, every data file is made afresh and
compared value by value, the central statistics are reckoned a second time by other code, and every figure on every
page has to say what its datum holds.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.website.data.promoted import Evidence
from lab.website.verification.again import reckoned_again
from lab.website.verification.data import data_files, parsed
from lab.website.verification.evidence import RUNS, load_published
from lab.website.verification.figures import Data, check_page, count_figures
from lab.website.verification.files import Difference, apart, check_manifest, opened

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """What was looked at, and everything that did not come out as published."""

    runs: int
    data_files: int
    pages: int
    figures: int
    differences: tuple[Difference, ...]


def verify(site: Path, say: Say) -> Verified:
    """Compute a site again. EvidenceError where it cannot be read at all."""
    with opened(site) as root, TemporaryDirectory(prefix="lab-verify-") as scratch:
        say("comparing files with the manifest")
        found = list(check_manifest(root))
        evidence = load_published(root, Path(scratch), found, say)
        say("comparing data with what the samples give")
        computed = data_files(root, evidence)
        for name, text in computed.items():
            found += _differences(root, name, text)
        say("reckoning times and speed-ups a second time")
        found += _again(computed, evidence)
        pages = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.html"))
        say(f"following the figures of {len(pages)} pages")
        data = Data(root)
        figures = 0
        for page in pages:
            html = (root / page).read_text(encoding="utf-8")
            figures += count_figures(html)
            found += check_page(page, html, data)
        found += (
            Difference(name, "figures point here, and nothing computes it") for name in data.asked - set(computed)
        )
        return Verified(
            runs=len(evidence), data_files=len(computed), pages=len(pages), figures=figures, differences=tuple(found)
        )


def _differences(root: Path, name: str, computed: str) -> Iterator[Difference]:
    """In which values, or lines, a file of the site differs from what was computed."""
    try:
        published = (root / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        yield Difference(name, "cannot be read; it follows from the samples")
        return
    if published != computed:
        try:
            yield from apart(parsed(published), parsed(computed), f"{name}#")
        except ValueError as problem:
            yield Difference(name, f"is damaged: {problem}")


def _again(computed: Mapping[str, str], evidence: Sequence[Evidence]) -> Iterator[Difference]:
    """The second reckoning of every result of every run."""
    for item in evidence:
        for result in item.run.experiments:
            name = f"{RUNS}/{item.digest[:12]}/{result.plan.name}/data.json"
            yield from reckoned_again(result, json.loads(computed[name]), name)
