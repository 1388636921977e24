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
from typing import Any

from lab.verdict.results import ExperimentResult
from lab.website.promoted import Evidence
from lab.website.verify_again import reckoned_again
from lab.website.verify_data import data_files
from lab.website.verify_evidence import load_published
from lab.website.verify_figures import Data, check_page, count_figures
from lab.website.verify_files import Difference, apart, check_manifest, opened, read_json

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
        for name, data in computed.items():
            found += apart(read_json(root, name), json.loads(json.dumps(data)), f"{name}#")
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


def _again(computed: Mapping[str, Any], evidence: Sequence[Evidence]) -> Iterator[Difference]:
    """The second reckoning of every data file that holds an experiment's result."""
    results: dict[tuple[str, str], ExperimentResult] = {
        (item.digest, result.plan.name): result for item in evidence for result in item.run.experiments
    }
    done = set()
    for name, data in computed.items():
        key = ((data.get("evidence") or {}).get("digest", ""), data.get("experiment", ""))
        if key in results and key not in done:
            done.add(key)
            yield from reckoned_again(results[key], data, name)
