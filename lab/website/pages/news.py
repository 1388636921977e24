"""What the newest published run changed: experiments that had no evidence before, and verdicts that are others now."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.website import format
from lab.website.addresses import run_folder, verdict_folder
from lab.website.data.outline import PastOutline

MOST_NEW, MOST_CHANGES = 6, 8


@dataclass(frozen=True, kw_only=True, slots=True)
class NewExperiment:
    slug: str
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeView:
    """A claim that got another verdict; `href` leads to the verdict it has now, relative to the site."""

    experiment: str
    text: str
    was: str
    now: str
    href: str


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    run_id: str
    date: str
    machine: str
    href: str
    experiments: int
    new: tuple[NewExperiment, ...]
    more_new: int  # beyond those that are listed
    changed: tuple[ChangeView, ...]
    more: int  # changes beyond those that are listed


def news(published: Sequence[PastOutline]) -> News | None:
    """Of the run that was published last; None where there is none."""
    if not published:
        return None
    newest = published[-1]
    held = [item for item in published if item.digest == newest.digest]
    before = {item.name for item in published if item.digest != newest.digest}
    changed = [(item, turn) for item in held for turn in item.turned]
    new = [NewExperiment(slug=item.name, title=item.title) for item in held if item.name not in before]
    return News(
        run_id=newest.run_id,
        date=format.day(newest.finished_utc),
        machine=newest.machine_name,
        href=f"{run_folder(newest.digest)}/index.html",
        experiments=len(held),
        new=tuple(new[:MOST_NEW]),
        more_new=max(0, len(new) - MOST_NEW),
        changed=tuple(
            ChangeView(
                experiment=item.title,
                text=text,
                was=was,
                now=now,
                href=f"{verdict_folder(item.digest, item.name)}/index.html#claim-{claim}",
            )
            for item, (claim, text, was, now) in changed[:MOST_CHANGES]
        ),
        more=max(0, len(changed) - MOST_CHANGES),
    )
