"""Decision records as written: Markdown with front matter, read strictly, so that a slip is named and not published.

Front matter (YAML): title, status (proposed, accepted, rejected, superseded), date, review_by, and rests_on: a list of
{claim: experiment/claim, expects: verdict, evidence: digest it was decided on}. Optional are deciders (a list of
names), software ({torch: "<2.12"}: outside of it the decision has expired) and supersedes (the record that this one
replaces). A challenged decision may be published while it is being reconsidered where `acknowledged` says why, in a
sentence, and beside the claim what it was found to be: {claim: …, acknowledged: refuted}, or several in a list.

The evidence of a claim is that on which it was decided, and stays. Who looks at a record again on newer evidence adds
an entry to `reviewed`, a list of {date, evidence: digest, says: a sentence}, the oldest first; none is ever taken away.
"""

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from lab.definition.experiment import SLUG
from lab.errors import DefinitionError
from lab.verdict.judge import Status
from lab.website.decisions import SOFTWARE, Decision, Freshness, Review, Support
from lab.website.wording.references import REFERENCE, References, check_prose, refuse_marks

STATUSES = ("proposed", "accepted", "rejected", "superseded")
SUPPORT = ["claim", "expects", "evidence", "acknowledged"]
REVIEW = {"date": datetime.date, "evidence": str, "says": str}
REQUIRED = {"title": str, "status": str, "date": datetime.date, "review_by": datetime.date, "rests_on": list}
FIELDS = REQUIRED | {"deciders": list, "software": dict, "supersedes": str, "acknowledged": str, "reviewed": list}


def load_decisions(folder: Path) -> tuple[Decision, ...]:
    """Every record in the folder, by number; none where there is no folder.

    DefinitionError names the file and the field at fault.
    """
    return tuple(_parse(path) for path in sorted(folder.glob("*.md")))


def check_records(decisions: Sequence[Decision], published: Sequence[str]) -> None:
    """Raise DefinitionError for a pin to evidence that is not published, or a record that replaces none."""
    for decision in decisions:
        for pin in dict.fromkeys(pins(decision)):
            if not any(digest.startswith(pin) for digest in published):
                raise DefinitionError(
                    f"decision {decision.slug}: is pinned to evidence {pin!r}, which is not published; "
                    f"published are {[digest[:12] for digest in published]}"
                )
        if decision.supersedes:
            _check_supersedes(decision, {other.slug: other for other in decisions})


def cited(decision: Decision, references: References) -> Decision:
    """A decision whose references are resolved. DefinitionError where it types in a figure."""
    for field, text in (("title", decision.title), ("acknowledged", decision.acknowledged), ("text", decision.body)):
        check_prose(text, f"decision {decision.slug}, {field}")
    if REFERENCE.search(decision.title):
        raise DefinitionError(f"decision {decision.slug}: its title refers to a figure; a title stands in links too")
    return replace(
        decision,
        acknowledged=references.resolve(decision.acknowledged, f"decision {decision.slug}, acknowledged"),
        body=references.resolve(decision.body, f"decision {decision.slug}"),
    )


def pins(decision: Decision) -> Iterator[str]:
    """The evidence that a record names: that it was decided on, then that of each review."""
    yield from (support.evidence for support in decision.rests_on if support.evidence)
    yield from (review.evidence for review in decision.reviewed)


def _check_supersedes(decision: Decision, known: Mapping[str, Decision]) -> None:
    replaced = known.get(decision.supersedes)
    if replaced is None:
        raise DefinitionError(
            f"decision {decision.slug}: supersedes {decision.supersedes!r}, which is no record; there are {list(known)}"
        )
    if replaced.slug >= decision.slug:
        raise DefinitionError(f"decision {decision.slug}: supersedes {replaced.slug}, which is not an earlier record")
    if replaced.status != "superseded":
        raise DefinitionError(
            f"decision {decision.slug}: supersedes {replaced.slug}, whose status is {replaced.status!r}; "
            "set it to 'superseded'"
        )


def _parse(path: Path) -> Decision:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:
        raise DefinitionError(f"{path.name}: cannot be read: {problem}") from None
    refuse_marks(text, path.name, DefinitionError)
    try:
        return _decision(path.stem, text)
    except DefinitionError as slip:
        raise DefinitionError(f"{path.name}: {slip}") from None


def _decision(slug: str, text: str) -> Decision:
    if not SLUG.fullmatch(slug):
        raise DefinitionError("the file's name must be NNNN-slug.md")
    parts = text.split("---\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise DefinitionError("must begin with YAML front matter between two lines of ---")
    try:
        front = yaml.safe_load(parts[1])
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as problem:
        raise DefinitionError(f"front matter is not valid YAML: {problem}") from None
    if not isinstance(front, dict):
        raise DefinitionError(f"front matter must be fields; accepted are {list(FIELDS)}")
    if unknown := [name for name in front if name not in FIELDS]:
        raise DefinitionError(f"unknown field {unknown[0]!r}; accepted are {list(FIELDS)}")
    written = _fields(front, {name: kind for name, kind in FIELDS.items() if name in front or name in REQUIRED})
    read = {name: READERS[name](value) if name in READERS else value for name, value in written.items()}
    decision = Decision(slug=slug, body=parts[2].strip(), **read)
    days = [decision.date, *(review.date for review in decision.reviewed)]
    if days != sorted(days):
        raise DefinitionError(
            f"reviewed is not in order: {[str(day) for day in days[1:]]} after the decision of {decision.date}; "
            "a review is added at the end of the list, and none is changed or taken away"
        )
    return decision


def _fields(given: Mapping[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    for name, kind in kinds.items():
        value = given.get(name)
        # A datetime is a date to Python, and an empty sentence is a string: neither is what the field asks for.
        if not isinstance(value, kind) or isinstance(value, datetime.datetime) or value == "":
            raise DefinitionError(f"field {name!r} is {value!r}; it must be a {kind.__name__}")
    return {name: given[name] for name in kinds}


def _status(text: str) -> str:
    return _one_of("status", text, STATUSES)


def _reviews(items: list[Any]) -> tuple[Review, ...]:
    if not all(isinstance(item, dict) and item.keys() == REVIEW.keys() for item in items):
        raise DefinitionError(f"each of reviewed must have {[*REVIEW]}, and nothing else")
    return tuple(Review(**_fields(item, REVIEW)) for item in items)


def _supports(items: list[Any]) -> tuple[Support, ...]:
    if not items:
        raise DefinitionError("rests_on is empty; name at least one claim")
    return tuple(map(_support, items))


def _support(item: Any) -> Support:
    if not isinstance(item, dict) or not {"claim", "expects"} <= item.keys() <= {*SUPPORT}:
        raise DefinitionError(f"each of rests_on must have claim and expects; accepted are {SUPPORT}")
    experiment, _, claim = str(item["claim"]).partition("/")
    known = item.get("acknowledged", [])
    accepted = (*Status, Freshness.ORPHANED)
    return Support(
        experiment=experiment,
        claim=claim,
        expects=Status(_one_of("expects", str(item["expects"]), tuple(Status))),
        evidence=str(item.get("evidence", "")),
        acknowledged=tuple(
            _one_of("acknowledged", str(each), accepted) for each in (known if isinstance(known, list) else [known])
        ),
    )


def _deciders(names: list[Any]) -> tuple[str, ...]:
    if not all(isinstance(name, str) and name for name in names):
        raise DefinitionError(f"field 'deciders' is {names!r}; it must be a list of names")
    return tuple(names)


def _software(ranges: Mapping[Any, Any]) -> Mapping[str, str]:
    for name, text in ranges.items():
        _one_of("software", str(name), SOFTWARE)
        try:
            SpecifierSet(str(text))
        except InvalidSpecifier:
            raise DefinitionError(
                f"software {name} is {text!r}; it must be a range of versions, such as '>=2.11,<2.12'"
            ) from None
    return {str(name): str(text) for name, text in ranges.items()}


def _one_of(name: str, value: str, accepted: Sequence[str]) -> str:
    if value not in accepted:
        raise DefinitionError(f"{name} is {value!r}; accepted are {[str(a) for a in accepted]}")
    return value


READERS: Mapping[str, Callable[[Any], Any]] = {
    "status": _status, "rests_on": _supports, "deciders": _deciders, "software": _software, "reviewed": _reviews
}  # fmt: skip
