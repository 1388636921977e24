"""What the lab's guard asks of published figures, and what it finds in public ones: the page and its data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.definition.publication import Publication
from lab.verdict.audit.finding import Amount, Finding, Rule
from lab.verdict.audit.rules import RULES, audit
from lab.website import format
from lab.website.data.judged import Judged
from lab.website.data.kept import audits
from lab.website.figure import Figure, Ledger, Sentence
from lab.website.files.schemas import data_text
from lab.website.files.shown_tables import shown_table
from lab.website.outputs import Attachment, Document, Gathered, Output
from lab.website.pages.same_kernel import BEYOND, SAME, SameKernel, same_kernel, same_kernel_data

SHOWN = (SAME[0], BEYOND[0])  # experiments whose figures the page shows
OPEN = 8  # lists of so many findings or fewer are unfolded at once

Path = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingView:
    place: str
    printed: Figure | None
    allowed: Figure | None
    words: Sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleView:
    """A rule of the guard; on a publication's part of the page with what it found there."""

    name: str
    statement: str
    count: Figure | None
    binding: bool
    findings: tuple[FindingView, ...] = ()
    unfolded: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicationView:
    slug: str
    title: str
    source: str
    about: str
    summary: Sentence
    sources: tuple[str, ...]
    rules: tuple[RuleView, ...]
    replication: str = ""  # the experiment that measures its cases again


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodsPage:
    lede: Sentence
    own: Sentence
    own_pages: tuple[PublicationView, ...]  # of this site: those that a rule which is not binding says something of
    principles: Mapping[str, tuple[RuleView, ...]]
    publications: tuple[PublicationView, ...]
    same_kernel: SameKernel | None
    limits: tuple[tuple[str, ...], ...]
    data: Mapping[str, Any]


def methods_page(
    publications: Sequence[Publication], own: Sequence[Mapping[str, Any]], shown: Sequence[Judged]
) -> MethodsPage:
    """`own`: what the guard said of each page of this site, by `guarded`; `shown` is what those pages show."""
    data = {**methods_data(publications, own), "same_kernel": same_kernel_data(publications, shown)}
    ledger = Ledger(data)
    rules = [_rule(rule, ledger.figure("rules", rule.name)) for rule in RULES]
    by_principle = {
        principle: tuple(view for view, rule in zip(rules, RULES, strict=True) if rule.principle == principle)
        for principle in dict.fromkeys(rule.principle for rule in RULES)
    }
    return MethodsPage(
        lede=_lede(ledger),
        own=_own(ledger),
        own_pages=tuple(_own_page(each, ledger) for each in own if each["found"]["findings"]),
        principles=by_principle,
        publications=tuple(_publication(each, ledger, "publications") for each in publications),
        same_kernel=same_kernel(ledger, "same_kernel"),
        limits=_limits(publications),
        data=data,
    )


def methods_pages(gathered: Gathered) -> Iterator[Output]:
    """methods/index.html and its data."""
    shown = [item for name in SHOWN if (item := gathered.shown(name))]
    page = methods_page(audits(), gathered.guarded, shown)
    yield Document(path="methods/index.html", template="methods.html", view={"methods": page})
    yield Attachment(path="methods/data.json", content=data_text(page.data, "methods/data.json", "methods"))
    yield from _tables(page)


def _tables(page: MethodsPage) -> Iterator[Attachment]:
    rules = [(principle, rule) for principle, rules in page.principles.items() for rule in rules]
    yield shown_table(
        "methods/rules.csv", ("rule", "principle", "statement", "binding", "findings"),
        [(rule.name, principle, rule.statement, rule.binding, _told(rule.count)) for principle, rule in rules],
    )  # fmt: skip
    findings = [
        (publication.slug, rule.name, each.place, _told(each.printed), _told(each.allowed), _told(*each.words))
        for publication in (*page.publications, *page.own_pages)
        for rule in publication.rules
        for each in rule.findings
    ]
    yield shown_table("methods/findings.csv", ("publication", "rule", "where", "printed", "allowed", "why"), findings)
    if same := page.same_kernel:
        columns = ("rmsnorm", *(f"{shape} {gpu}" for shape, gpu in same.columns))
        rows = [(label, *map(_told, figures)) for label, figures in same.rows]
        yield shown_table("methods/same-kernel.csv", columns, rows)


def _told(*words: Figure | str | None) -> str:
    """Figures with their units: in these columns they differ from row to row."""
    return "".join(word.text if isinstance(word, Figure) else word or "" for word in words)


def guarded(publication: Publication, found: Mapping[str, tuple[Finding, ...]]) -> dict[str, Any]:
    """What the guard found in one page of this site, as plain JSON values."""
    return {
        "slug": publication.slug,
        "title": publication.title,
        "tables": len(publication.tables),
        "found": _found(publication, found),
    }


def methods_data(publications: Sequence[Publication], own: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Plain JSON values; SI units, with the unit beside each value."""
    found = {each.slug: audit(each) for each in publications}
    return {
        "rules": {rule.name: sum(len(each.get(rule.name, ())) for each in found.values()) for rule in RULES},
        "rule_count": len(RULES),
        "own": {
            "pages": len(own),
            "tables": sum(each["tables"] for each in own),
            "rows": sum(each["found"]["rows"] for each in own),
            "statements": sum(each["found"]["statements"] for each in own),
            "findings": sum(each["found"]["findings"] for each in own),
        },
        "own_pages": {each["slug"]: each["found"] for each in own},
        "publication_count": len(publications),
        "rows": sum(_row_count(publication) for publication in publications),
        "findings": sum(len(findings) for each in found.values() for findings in each.values()),
        "publications": {each.slug: _found(each, found[each.slug]) for each in publications},
    }  # fmt: skip


def _found(publication: Publication, found: Mapping[str, tuple[Finding, ...]]) -> dict[str, Any]:
    flagged = {(finding.table, finding.row) for findings in found.values() for finding in findings}
    rows = [(table.title, row.label) for table in publication.tables for row in table.rows]
    return {
        "source": publication.source,
        "rows": len(rows),
        "statements": len(publication.statements),
        "sound_rows": sum(row not in flagged for row in rows),
        "findings": sum(map(len, found.values())),
        "rules_broken": len(found),
        "rules": {
            rule: {
                "count": len(findings),
                "findings": {str(number): _finding(finding) for number, finding in enumerate(findings)},
            }
            for rule, findings in found.items()
        },
    }


def _finding(finding: Finding) -> dict[str, Any]:
    amounts = [word for word in finding.words if isinstance(word, Amount)]
    return {
        "table": finding.table,
        "row": finding.row,
        "printed": _amount(finding.printed),
        "allowed": _amount(finding.allowed),
        "words": {str(number): _amount(amount) for number, amount in enumerate(amounts)},
        "text": [None if isinstance(word, Amount) else word for word in finding.words],
    }


def _amount(amount: Amount | None) -> dict[str, Any] | None:
    return None if amount is None else {"value": float(f"{amount.value:.7g}"), "unit": amount.unit}


def _row_count(publication: Publication) -> int:
    return sum(len(table.rows) for table in publication.tables)


def _lede(ledger: Ledger) -> Sentence:
    return (
        "Before anything is published here, a guard of ", _number(ledger, "rule_count"), " rules asks whether the "
        "hardware allows it and whether it contradicts itself. Asked of ", _number(ledger, "publication_count"),
        " public benchmark projects, with ", _number(ledger, "rows"), " rows between them, it finds ",
        _number(ledger, "findings"), " reasons to look again.",
    )  # fmt: skip


def _own(ledger: Ledger) -> Sentence:
    return (
        "The same rules were asked of this site as it was built: ", _number(ledger, "own", "rows"), " rows in ",
        _number(ledger, "own", "tables"), " tables and ", _number(ledger, "own", "statements"), " statements on ",
        _number(ledger, "own", "pages"), " pages. Had a binding one fired, there would be no new site; the others "
        "find ", _number(ledger, "own", "findings"), " here.",
    )  # fmt: skip


def _number(ledger: Ledger, *path: str) -> Figure | str:
    return ledger.figure(*path, show=lambda value: f"{value:,}") or "no"


def _rule(rule: Rule, count: Figure | None, findings: tuple[FindingView, ...] = ()) -> RuleView:
    return RuleView(
        name=rule.name, statement=rule.statement, count=count, binding=rule.binding, findings=findings,
        unfolded=len(findings) <= OPEN,
    )  # fmt: skip


def _publication(publication: Publication, ledger: Ledger, kind: str) -> PublicationView:
    path = (kind, publication.slug)
    return PublicationView(
        slug=publication.slug,
        title=publication.title,
        source=publication.source,
        about=publication.about,
        replication=publication.replication.experiment if publication.replication else "",
        summary=_summary(ledger, path),
        sources=tuple(dict.fromkeys(each.source for each in (*publication.tables, *publication.statements))),
        rules=_broken(ledger, path),
    )


def _own_page(page: Mapping[str, Any], ledger: Ledger) -> PublicationView:
    """A page of this site of which a rule that is not binding says something."""
    path = ("own_pages", page["slug"])
    return PublicationView(
        slug=page["slug"], title=page["title"], source=page["found"]["source"], about="",
        summary=_summary(ledger, path), sources=(), rules=_broken(ledger, path),
    )  # fmt: skip


def _summary(ledger: Ledger, path: Path) -> Sentence:
    return (
        _number(ledger, *path, "findings"), " findings by ", _number(ledger, *path, "rules_broken"), " rules; ",
        _number(ledger, *path, "sound_rows"), " of ", _number(ledger, *path, "rows"), " rows raise none.",
    )  # fmt: skip


def _broken(ledger: Ledger, path: Path) -> tuple[RuleView, ...]:
    """The rules that found something, with what they found."""
    views = []
    for rule in RULES:
        place = (*path, "rules", rule.name)
        if found := ledger.value(*place, "findings"):
            findings = tuple(_finding_view(ledger, (*place, "findings", number)) for number in found)
            views.append(_rule(rule, ledger.figure(*place, "count"), findings))
    return tuple(views)


def _finding_view(ledger: Ledger, path: Path) -> FindingView:
    table, row = ledger.value(*path, "table"), ledger.value(*path, "row")
    words: list[Figure | str] = []
    number = 0
    for word in ledger.value(*path, "text"):
        if word is None:
            words.append(_figure(ledger, *path, "words", str(number)) or "–")
            number += 1
        else:
            words.append(word)
    return FindingView(
        place=f"{table}: {row}" if table else row,
        printed=_figure(ledger, *path, "printed"),
        allowed=_figure(ledger, *path, "allowed"),
        words=tuple(words),
    )


def _figure(ledger: Ledger, *path: str) -> Figure | None:
    unit = ledger.value(*path, "unit")
    return ledger.figure(*path, "value", show=lambda value: format.amount(value, unit))


def _limits(publications: Sequence[Publication]) -> tuple[tuple[str, ...], ...]:
    """What the makers say of the audited GPUs: name, memory, dense rates, cache, source."""
    known = {table.limits.gpu: table.limits for publication in publications for table in publication.tables}
    return tuple(
        (
            limits.gpu,
            format.amount(limits.bytes_per_second, "bytes_per_second"),
            format.amount(limits.flops_per_second["float16"], "flops_per_second"),
            f"{limits.l2_bytes / 2**20:.0f} MiB",
            limits.source,
        )
        for limits in known.values()
    )
