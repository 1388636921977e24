"""A published site, computed again from its own raw samples: what anyone can do who has the site and this code.

Nothing that the site says is believed: runs are judged again from their journals, every file is made afresh and
compared byte by byte, the central statistics are reckoned a second time by other code, and every figure on every page
has to say what its datum holds.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.errors import LabError
from lab.website.addresses import verdict_folder
from lab.website.data.promoted import Evidence
from lab.website.site import DECISIONS
from lab.website.verification.again import reckoned_again
from lab.website.verification.evidence import load_published
from lab.website.verification.figures import Data, check_page, count_figures
from lab.website.verification.files import UNMEASURED, Difference, check_manifest, opened
from lab.website.verification.rebuilt import rebuilt, unlike

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """What was looked at, and everything that did not come out as published."""

    runs: int
    files: int
    pages: int
    figures: int
    differences: tuple[Difference, ...]


def verify(site: Path, say: Say, decisions: Path = DECISIONS) -> Verified:
    """Compute a site again. EvidenceError where it cannot be read at all."""
    with opened(site) as root, TemporaryDirectory(prefix="lab-verify-") as scratch:
        say("comparing files with the manifest")
        found = list(check_manifest(root))
        evidence = load_published(root, Path(scratch) / "runs", found, say)
        say("making every file afresh from what the samples give")
        files = 0
        try:
            made = rebuilt(root, evidence, decisions, Path(scratch))
        except (LabError, *UNMEASURED) as problem:
            what = "" if isinstance(problem, LabError) else f"{type(problem).__name__}: "
            found.append(Difference(str(site), f"cannot be made from its samples: {what}{problem}"))
        else:
            files = sum(path.is_file() for path in made.rglob("*"))
            found += unlike(root, made, evidence)
            say("reckoning times and speed-ups a second time")
            found += _again(made, evidence)
        pages = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.html") if path.is_file())
        say(f"following the figures of {len(pages)} pages")
        data = Data(root)
        figures = 0
        for page in pages:
            html = (root / page).read_text(encoding="utf-8", errors="replace")
            figures += count_figures(html)
            found += check_page(page, html, data)
        return Verified(
            runs=len(evidence), files=files, pages=len(pages), figures=figures, differences=tuple(dict.fromkeys(found))
        )


def _again(made: Path, evidence: Sequence[Evidence]) -> Iterator[Difference]:
    """The second reckoning of every result of every run."""
    for item in evidence:
        for result in item.run.experiments:
            name = f"{verdict_folder(item.digest, result.plan.name)}/data.json"
            yield from reckoned_again(result, json.loads((made / name).read_text(encoding="utf-8")), name)
