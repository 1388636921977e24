"""What the newest published run changed: experiments that had no evidence before, and verdicts that are others now."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.website import format
from lab.website.addresses import run_folder, verdict_folder
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import changes

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


def news(published: Sequence[Judged]) -> News | None:
    """Of the run that was published last; None where there is none."""
    if not published:
        return None
    newest = published[-1]
    held = {item.plan.name: item for item in published if item.digest == newest.digest}
    before = {item.plan.name for item in published if item.digest != newest.digest}
    history = [item for item in published if item.plan.name in held]
    changed = [each for each in changes(history) if each.digest == newest.digest and each.was]
    new = [NewExperiment(slug=name, title=item.plan.title) for name, item in held.items() if name not in before]
    return News(
        run_id=newest.evidence["run_id"],
        date=format.day(newest.measured_utc),
        machine=newest.machine_name,
        href=f"{run_folder(newest.digest)}/index.html",
        experiments=len(held),
        new=tuple(new[:MOST_NEW]),
        more_new=max(0, len(new) - MOST_NEW),
        changed=tuple(
            ChangeView(
                experiment=held[each.experiment].plan.title,
                text=next(c.text for c in held[each.experiment].plan.claims if c.name == each.claim),
                was=each.was,
                now=each.now,
                href=f"{verdict_folder(each.digest, each.experiment)}/index.html#claim-{each.claim}",
            )
            for each in changed[:MOST_CHANGES]
        ),
        more=max(0, len(changed) - MOST_CHANGES),
    )
