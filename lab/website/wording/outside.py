"""No sentence speaks of more than was measured: the boundary, kept by a check and not by care.

Looked for in the texts that state a result: names of GPUs, data types, shapes and scopes. Each must be its run's: the
machine's, and those of the cases that the run included. Names that were registered, such as a profile's, are not
looked into: they say what was compared and not for what it holds.
"""

import re
from collections.abc import Iterable, Iterator

from lab.definition.claim_words import claim_sentence
from lab.definition.plan import PlannedCase, PlannedExperiment
from lab.errors import DefinitionError, EvidenceError
from lab.website.addresses import DTYPES
from lab.website.data.judged import Judged
from lab.website.outputs import Document, Output
from lab.website.pages import labels
from lab.website.wording.lint import Quotable

GPU = re.compile(
    r"\b(?:G?[BH]\d{2,3}|A\d{2,3}[A-Z]?|[PV]100|L40?S?|T4|MI\d{3}[A-Z]?|(?:RTX|GTX|GeForce|Quadro|Radeon|Tesla) \w+"
    r"|Volta|Turing|Ampere|Ada Lovelace|Hopper|Blackwell)\b"
)
DTYPE = re.compile(r"\b(?:b?float\d+(?:_e\dm\d\w*)?|[bt]?f\d+|fp\d+|int\d+)\b")
SHAPE = re.compile(r"\b\d+(?:[×x]\d+)+\b")
Said = tuple[str, str]  # where, and the text


def refuse_outside(item: Judged, said: Iterable[Said]) -> None:
    """EvidenceError that names the experiment, the text and what in it the evidence does not hold."""
    texts = list(said)
    names = Quotable(_registered(item) if texts else ())  # a file says nothing
    for place, text in texts:
        for kind, name in _outside(item, names.without(text)):
            raise EvidenceError(
                f"{item.plan.name}, {place}: speaks of {kind} {name!r}, which its evidence does not hold: {text!r}"
            )


def check_claims(experiments: Iterable[PlannedExperiment]) -> None:
    """DefinitionError where a claim, which stands on pages as it was registered, speaks of more than its cases.

    A case's description may name more, such as the type that its result is cast to. No claim names a GPU: a verdict
    says of itself on which it was measured.
    """
    for experiment in experiments:
        cases = {case.name: case for case in experiment.cases}
        titles = Quotable(profile.title for profile in experiment.profiles)
        for claim in experiment.claims:
            asked = [cases[name] for name in claim.cases]
            described = " ".join(case.description for case in asked)
            for kind, name in _beyond(titles.without(claim.text), asked, gpu=""):
                if name not in described:
                    raise DefinitionError(
                        f"{experiment.name}: claim {claim.name} speaks of {kind} {name!r}, which none of its cases has"
                    )


def said(output: Output) -> Iterator[Said]:
    """What states a result in one page of an experiment."""
    if isinstance(output, Document):
        yield from output.view.get("said", ())


def _outside(item: Judged, text: str) -> Iterator[tuple[str, str]]:
    """What a text names, beside what was registered, that its experiment's run did not hold."""
    cases = item.plan.included_cases if item.evidence else ()
    gpu = str(item.machine.get("gpu", "")) if item.machine.get("device") == "cuda" else ""
    yield from _beyond(text, cases, gpu)
    for scope, words in labels.SCOPES.items():
        if scope not in item.plan.scopes and (words.told in text or ("_" in scope and scope in text)):
            yield "scope", scope


def _beyond(text: str, cases: Iterable[PlannedCase], gpu: str) -> Iterator[tuple[str, str]]:
    """What a text names beside a GPU and some cases."""
    cases = tuple(cases)
    dtypes = {name for case in cases for name in (case.dtype, DTYPES.get(case.dtype), labels.DTYPES.get(case.dtype))}
    shapes = {"×".join(map(str, case.shape)) for case in cases}
    yield from (("GPU", name) for name in GPU.findall(text) if not re.search(rf"\b{name}\b", gpu))
    yield from (("data type", name) for name in DTYPE.findall(text) if name not in dtypes)
    yield from (("shape", name) for name in SHAPE.findall(text) if name.replace("x", "×") not in shapes)


def _registered(item: Judged) -> set[str]:
    """Names of profiles and operators, and claims."""
    operators = {case.op for case in item.plan.cases}
    titles = {labels.TITLES[name] for name in operators if name in labels.TITLES}
    claims = {text for claim in item.plan.claims for text in (claim_sentence(claim), claim.text)}
    return {each.title for each in item.plan.profiles} | operators | titles | claims
