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
from collections.abc import Iterator, Mapping, Sequence
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
REQUIRED = ("title", "status", "date", "review_by", "rests_on")
SUPPORT = ["claim", "expects", "evidence", "acknowledged"]
REVIEW = ["date", "evidence", "says"]
FIELDS = (*REQUIRED, "deciders", "software", "supersedes", "acknowledged", "reviewed")


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
    slug = path.stem
    if not SLUG.fullmatch(slug):
        raise DefinitionError(f"{path.name}: the file's name must be NNNN-slug.md")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:
        raise DefinitionError(f"{path.name}: cannot be read: {problem}") from None
    refuse_marks(text, path.name, DefinitionError)
    parts = text.split("---\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise DefinitionError(f"{path.name}: must begin with YAML front matter between two lines of ---")
    try:
        front = yaml.safe_load(parts[1])
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as problem:
        raise DefinitionError(f"{path.name}: front matter is not valid YAML: {problem}") from None
    if not isinstance(front, dict):
        raise DefinitionError(f"{path.name}: front matter must be fields; accepted are {list(FIELDS)}")
    if unknown := sorted(set(front) - set(FIELDS)):
        raise DefinitionError(f"{path.name}: unknown field {unknown[0]!r}; accepted are {list(FIELDS)}")
    decided = _field(path, front, "date", datetime.date)
    return Decision(
        slug=slug,
        title=_field(path, front, "title", str),
        status=_one_of(path, "status", _field(path, front, "status", str), STATUSES),
        date=decided,
        review_by=_field(path, front, "review_by", datetime.date),
        rests_on=_supports(path, _field(path, front, "rests_on", list)),
        deciders=_deciders(path, front),
        software=_software(path, front),
        supersedes=_field(path, front, "supersedes", str) if "supersedes" in front else "",
        acknowledged=_field(path, front, "acknowledged", str) if "acknowledged" in front else "",
        reviewed=_reviews(path, _field(path, front, "reviewed", list), decided) if "reviewed" in front else (),
        body=parts[2].strip(),
    )


def _reviews(path: Path, items: list[Any], decided: datetime.date) -> tuple[Review, ...]:
    reviews = tuple(_review(path, item) for item in items)
    days = [decided, *(review.date for review in reviews)]
    if days != sorted(days):
        raise DefinitionError(
            f"{path.name}: reviewed is not in order: {[str(day) for day in days[1:]]} after the decision of {decided}; "
            "a review is added at the end of the list, and none is changed or taken away"
        )
    return reviews


def _review(path: Path, item: Any) -> Review:
    if not isinstance(item, dict) or set(item) != {*REVIEW}:
        raise DefinitionError(f"{path.name}: each of reviewed must have {REVIEW}, and nothing else")
    return Review(
        date=_field(path, item, "date", datetime.date),
        evidence=_field(path, item, "evidence", str),
        says=_field(path, item, "says", str),
    )


def _supports(path: Path, items: list[Any]) -> tuple[Support, ...]:
    if not items:
        raise DefinitionError(f"{path.name}: rests_on is empty; name at least one claim")
    return tuple(_support(path, item) for item in items)


def _support(path: Path, item: Any) -> Support:
    if not isinstance(item, dict) or not {"claim", "expects"} <= set(item) <= {*SUPPORT}:
        raise DefinitionError(f"{path.name}: each of rests_on must have claim and expects; accepted are {SUPPORT}")
    experiment, _, claim = str(item["claim"]).partition("/")
    expects = _one_of(path, "expects", str(item["expects"]), tuple(Status))
    known = item.get("acknowledged", [])
    known = known if isinstance(known, list) else [known]
    accepted = (*Status, Freshness.ORPHANED)
    return Support(
        experiment=experiment,
        claim=claim,
        expects=Status(expects),
        evidence=str(item.get("evidence", "")),
        acknowledged=tuple(_one_of(path, "acknowledged", str(each), accepted) for each in known),
    )


def _deciders(path: Path, front: Mapping[str, Any]) -> tuple[str, ...]:
    names = _field(path, front, "deciders", list) if "deciders" in front else []
    if not all(isinstance(name, str) and name for name in names):
        raise DefinitionError(f"{path.name}: field 'deciders' is {names!r}; it must be a list of names")
    return tuple(names)


def _software(path: Path, front: Mapping[str, Any]) -> Mapping[str, str]:
    ranges = _field(path, front, "software", dict) if "software" in front else {}
    for name, text in ranges.items():
        _one_of(path, "software", str(name), SOFTWARE)
        try:
            SpecifierSet(str(text))
        except InvalidSpecifier:
            raise DefinitionError(
                f"{path.name}: software {name} is {text!r}; it must be a range of versions, such as '>=2.11,<2.12'"
            ) from None
    return {str(name): str(text) for name, text in ranges.items()}


def _field(path: Path, front: Mapping[str, Any], name: str, kind: type) -> Any:
    value = front.get(name)
    # A datetime is a date to Python, and an empty sentence is a string: neither is what the field asks for.
    if not isinstance(value, kind) or isinstance(value, datetime.datetime) or value == "":
        raise DefinitionError(f"{path.name}: field {name!r} is {front.get(name)!r}; it must be a {kind.__name__}")
    return front[name]


def _one_of(path: Path, name: str, value: str, accepted: Sequence[str]) -> str:
    if value not in accepted:
        raise DefinitionError(f"{path.name}: {name} is {value!r}; accepted are {[str(a) for a in accepted]}")
    return value
