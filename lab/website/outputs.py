"""What a site consists of: pages made from templates, and files that are written as they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.website.decisions import Decision, Standing
from lab.website.judged import Judged


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathered:
    """All that pages are made of. `label` is set on a preview, so that nobody takes it for published."""

    label: str
    current: tuple[Judged, ...]  # every experiment with the evidence that its page shows, in their order
    published: tuple[Judged, ...]  # every experiment of every published run, oldest first
    decisions: tuple[tuple[Decision, Sequence[Standing]], ...]
    files: tuple[Published, ...]  # of every published run, oldest first; none in a preview
    base_url: str = ""  # where the site will stand, with a slash at its end; empty where nobody said

    def history(self, experiment: str) -> tuple[Judged, ...]:
        """Every published run of an experiment, oldest first."""
        return tuple(item for item in self.published if item.plan.name == experiment)

    def histories(self) -> dict[str, tuple[Judged, ...]]:
        """The history of every experiment that has one."""
        found: dict[str, list[Judged]] = {}
        for item in self.published:
            found.setdefault(item.plan.name, []).append(item)
        return {name: tuple(held) for name, held in found.items()}

    def runs(self) -> tuple[tuple[Judged, ...], ...]:
        """The experiments of each published run, oldest run first."""
        found: dict[str, list[Judged]] = {}
        for item in self.published:
            found.setdefault(item.digest, []).append(item)
        return tuple(tuple(held) for held in found.values())
