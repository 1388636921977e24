"""What the rest of the site knows of an experiment: as much as its lists and counts show, and no more.

Thousands of outlines are read at once where thousands of experiments would not fit into memory. Their fields are plain
JSON values: they are remembered from build to build.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from lab.website.wording.quoted import Quoted


@dataclass(frozen=True, kw_only=True, slots=True)
class Outline:
    """An experiment with the evidence that its page shows. Of what was not measured, texts are empty."""

    name: str
    title: str
    question: str
    self_test: bool
    digest: str
    gpu: str  # its model; empty of a CPU
    on_cpu: bool
    machine_name: str
    measured_utc: str
    finished_utc: str
    counts: Mapping[str, int]  # claims by verdict
    rivals: Mapping[str, Mapping[str, int]]  # claims by kind of rival and outcome: lab.website.pages.rivals
    answer: Sequence[Any]  # lab.website.figure.plain_sentence
    findings: Mapping[str, Mapping[str, Any]]  # by list: lab.website.pages.established.Finding
    claims: Sequence[Sequence[str]]  # name, text
    cases: Sequence[Sequence[str]]  # name, label
    profiles: Sequence[Sequence[str]]  # name, title, technique
    phrases: Sequence[str]  # what with a figure in it a page may quote
    machine_phrases: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class PastOutline:
    """An experiment as one published run has it."""

    name: str
    title: str
    digest: str
    run_id: str
    finished_utc: str
    cut_short: bool
    machine: Mapping[str, str]  # device, gpu, gpu_id
    machine_name: str
    counts: Mapping[str, int]
    turned: Sequence[Sequence[str]]  # of each claim that got another verdict: name, text, verdict before, verdict now
    entries: Sequence[Mapping[str, str]]  # lab.website.files.feed.Entry
    phrases: Sequence[str]
    machine_phrases: Sequence[str]

    @property
    def on_cpu(self) -> bool:
        return self.machine["device"] == "cpu"


def plain(outline: Outline | PastOutline) -> dict[str, Any]:
    """Its fields, for JSON."""
    return {each.name: getattr(outline, each.name) for each in fields(outline)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlines:
    """Of every experiment, in their order; and of every experiment of every published run, oldest first."""

    current: Sequence[Outline]
    published: Sequence[PastOutline]

    def quoted(self) -> Iterator[Quoted]:
        """What pages may quote of them."""
        yield from (Quoted(each.name, each.phrases, each.machine_phrases) for each in self.current)
        yield from (Quoted(each.name, each.phrases, each.machine_phrases) for each in self.published)
