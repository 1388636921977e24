"""What a site consists of: pages made from templates, and files that are written as they are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.website.data.judged import Judged
from lab.website.data.outline import Outlines
from lab.website.data.shelf import named
from lab.website.decisions import Decision, Standing


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A page: `view` is what its template may see. `path` ends in index.html, relative to the site."""

    path: str
    template: str
    view: Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """A file beside the pages."""

    path: str
    content: str | bytes


Output = Document | Attachment


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """The files of a published run: where they lie, and what they are addressed by."""

    digest: str
    directory: Path
    finished_utc: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathered:
    """All that pages are made of. `label` is set on a preview, so that nobody takes it for published.

    The sequences load what they hold when it is asked for: go through them once, and keep no more than is shown.
    """

    label: str
    current: Sequence[Judged]  # every experiment with the evidence that its page shows, in their order
    published: Sequence[Judged]  # every experiment of every published run, oldest first
    decisions: Sequence[tuple[Decision, Sequence[Standing]]]
    files: Sequence[Published] = ()  # of every published run, oldest first; none in a preview
    downloads: bool = True  # whether the files of runs are written too; a site that is made to compare needs none
    base_url: str = ""  # where the site will stand, with a slash at its end; empty where nobody said
    guarded: Sequence[Mapping[str, Any]] = ()  # by experiment, what the guard said: lab.website.pages.methods.guarded
    trust: Mapping[str, Any] = field(default_factory=dict)  # lab.website.data.published_trust; empty on a preview
    outlines: Outlines | None = None  # of all experiments, where they are at hand: lab.website.pages.outline

    def history(self, experiment: str) -> tuple[Judged, ...]:
        """Every published run of an experiment, oldest first."""
        return tuple(named(self.published, experiment))

    def shown(self, experiment: str) -> Judged | None:
        """An experiment with the evidence that its page shows; None where there is none of that name."""
        return next(iter(named(self.current, experiment)), None)

    def histories(self) -> dict[str, tuple[Judged, ...]]:
        """The history of every experiment that has one."""
        found: dict[str, list[Judged]] = {}
        for item in self.published:
            found.setdefault(item.plan.name, []).append(item)
        return {name: tuple(held) for name, held in found.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheaf:
    """Pages that need some experiments whole, made only where what they show is no longer the same."""

    name: str
    shows: Any  # plain JSON values: the keys of these experiments, and what else the pages are made of
    make: Callable[[], Iterable[Output]]


Room = Callable[[Gathered], Iterable[Output]]
SheafRoom = Callable[[Gathered], Iterable[Sheaf]]
