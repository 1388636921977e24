"""What a site consists of: pages made from templates, and files that are written as they are."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace as View
from typing import Any, TypeVar

from lab.website.data.judged import Judged
from lab.website.data.promoted import Evidence
from lab.website.data.publication_log import Log
from lab.website.decisions import Decision, SupportStanding

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A page: `view` is what its template may see. `path` ends in index.html, relative to the site."""

    path: str
    template: str
    view: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """A file beside the pages."""

    path: str
    content: str | bytes


Output = Document | Attachment


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlines:
    """What lists and counts show of every experiment, in their order, and of every experiment of every published run,
    oldest first: plain values, which stay in memory and are remembered from build to build."""

    current: Sequence[View]  # lab.website.pages.outline.outline
    published: Sequence[View]  # lab.website.pages.outline.past_outlines

    def phrases(self) -> Iterator[str]:
        """What pages may quote of them."""
        for each in (*self.current, *self.published):
            yield from each.phrases


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteContext:
    """All that pages are made of. `label` is set on a preview, so that nobody takes it for published.

    An experiment is read when its plan or data are asked for: go through them once, and keep no more than is shown.
    """

    label: str
    current: Sequence[Judged]  # every experiment with the evidence that its page shows, in their order
    published: Sequence[Judged]  # every experiment of every published run, oldest first
    decisions: Sequence[tuple[Decision, Sequence[SupportStanding]]]
    files: Sequence[Evidence] = ()  # of every published run, oldest first; none in a preview
    samples: bool = False  # whether the site holds plans and journals of its runs, or leaves them in the repository
    base_url: str = ""  # where the site will stand, with a slash at its end; empty where nobody said
    guarded: Sequence[Mapping[str, Any]] = ()  # by experiment, what the guard said: lab.website.pages.methods.guarded
    trust: Mapping[str, Any] = field(default_factory=dict)  # lab.website.data.published_trust; empty on a preview
    log: Log = ()  # of all that was ever published
    outlines: Outlines | None = None  # of all experiments, where they are at hand: lab.website.pages.outline

    def history(self, experiment: str) -> tuple[Judged, ...]:
        """Every published run of an experiment, oldest first."""
        return tuple(item for item in self.published if item.name == experiment)

    def histories(self) -> dict[str, list[Judged]]:
        """The history of every experiment that has one."""
        return grouped(self.published, lambda item: item.name)

    def runs(self) -> dict[str, list[Judged]]:
        """The experiments of every published run, by its digest, the oldest run first."""
        return grouped(self.published, lambda item: item.digest)


def grouped(items: Iterable[Item], key: Callable[[Item], str]) -> dict[str, list[Item]]:
    """Those of one key together, in their order."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


@dataclass(frozen=True, kw_only=True, slots=True)
class PageGroup:
    """Pages that need some experiments whole, made only where what they show is no longer the same."""

    name: str
    shows: Any  # plain JSON values: the keys of these experiments, and what else the pages are made of
    make: Callable[[], Iterable[Output]]


PageBuilder = Callable[[SiteContext], Iterable[Output]]
GroupBuilder = Callable[[SiteContext], Iterable[PageGroup]]
