"""What the run that was published last changed: experiments that had no evidence before, and verdicts that are others
now."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace as View

from lab.website import format
from lab.website.addresses import run_folder

MOST_NEW, MOST_CHANGES = 4, 4


def news(published: Sequence[View], shown: Mapping[str, str]) -> View | None:
    """Of the run that was published last; None where there is none. `shown`: by experiment the digest of the evidence
    that its pages show."""
    if not published:
        return None
    newest = published[-1]
    items = [item for item in published if item.digest == newest.digest]
    before = {item.name for item in published if item.digest != newest.digest}
    fuller = {item.name: item.run_id for item in published if item.digest == shown.get(item.name) != newest.digest}
    changed = [View(**turn, fuller=fuller.get(item.name, "")) for item in items for turn in item.turned]
    new = [View(slug=item.name, title=item.title) for item in items if item.name not in before]
    return View(
        run_id=newest.run_id, date=format.day(newest.finished_utc), machine=newest.machine_name,
        href=f"{run_folder(newest.digest)}/index.html", cut_short=newest.cut_short, experiments=len(items),
        new=new[:MOST_NEW],
        more_new=max(0, len(new) - MOST_NEW), changed=changed[:MOST_CHANGES],
        more=max(0, len(changed) - MOST_CHANGES),
    )  # fmt: skip
