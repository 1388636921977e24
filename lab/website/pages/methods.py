"""What the lab's guard asks of published figures, and what it finds in public ones: the page and its data."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from types import SimpleNamespace as View
from typing import Any

from lab.definition.publication import Limits, Publication
from lab.verdict.audit.finding import Finding
from lab.verdict.audit.rules import RULES, audit
from lab.verdict.datasheet import Datasheet, datasheet
from lab.website import format
from lab.website.data.judged import json_text
from lab.website.data.judged_cache import audits
from lab.website.data.typed import plain_json
from lab.website.figure import DataView, Sentence, sentence
from lab.website.outputs import Attachment, Document, Output, PageGroup, SiteContext
from lab.website.pages.outline import outlines
from lab.website.table import (
    Constant,
    PageTable,
    TableRow,
    below,
    column,
    csv_file,
    csv_table,
    named,
    numbers,
    plain,
    table_row,
    words,
)


def methods_page(
    publications: Sequence[Publication], own: Sequence[Mapping[str, Any]], experiments: Collection[str] = (),
    gpus: Sequence[str] = (),
) -> View:  # fmt: skip
    """`own`: what the guard said of each page of this site, by `guarded`; `experiments`: those that have a page;
    `gpus`: those that this site's runs were measured on."""
    data = methods_data(publications, own)
    view = DataView(data)
    return View(
        lede=_lede(view), own=_own(view),
        own_pages=tuple(_own_page(each, view) for each in own if each["found"]["findings"]), rules=_rules(view),
        publications=[_publication(each, view, experiments) for each in publications],
        limits=_limits(publications, gpus), data=data,
    )  # fmt: skip


def methods_pages(context: SiteContext) -> Iterator[PageGroup]:
    """methods/index.html, its data and its tables."""
    names = [item.name for item in context.current]
    gpus = sorted({item.machine_name for item in outlines(context).published if not item.on_cpu})
    shows = [list(context.guarded), names, gpus]
    yield PageGroup(name="methods", shows=shows, make=partial(_pages, context.guarded, names, gpus))


def _pages(
    guarded: Sequence[Mapping[str, Any]], experiments: Sequence[str], gpus: Sequence[str]
) -> Iterator[Output]:  # fmt: skip
    page = methods_page(audits(), guarded, experiments, gpus)
    yield Document(path="methods/index.html", template="methods.html", view={"methods": page})
    yield Attachment(path="methods/data.json", content=json_text(page.data))
    yield from _tables(page)


def _tables(page: View) -> Iterator[Attachment]:
    yield csv_file(page.rules, "methods/rules.csv")
    found = (_told(each) for each in (*page.publications, *page.own_pages))
    columns = ("publication", "rule", "where", "published", "allowed", "why")
    yield csv_table("methods/findings.csv", columns, chain.from_iterable(found))


def _told(page: View) -> Iterator[tuple[str, ...]]:
    """Its findings, each under its rule; figures with their units, which differ from row to row."""
    rule = ""
    for row in page.findings.rows:
        if row.kind == "group":
            rule = plain(row.cells[0][:1]).rstrip(":")
        else:
            yield page.slug, rule, *(plain([word for word in cell if word]) for cell in row.cells)


def guarded(publication: Publication, findings: Mapping[str, tuple[Finding, ...]]) -> dict[str, Any]:
    """What the guard found in one page of this site, as plain JSON values."""
    return {
        "slug": publication.slug,
        "title": publication.title,
        "tables": len(publication.tables),
        "found": _found(publication, findings),
    }


def methods_data(publications: Sequence[Publication], own: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Plain JSON values; SI units, with the unit beside each value."""
    findings_by_slug = {each.slug: audit(each) for each in publications}
    return {
        "rules": {rule.name: sum(len(each.get(rule.name, ())) for each in findings_by_slug.values()) for rule in RULES},
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
        "rows": sum(len(table.rows) for publication in publications for table in publication.tables),
        "findings": sum(len(findings) for each in findings_by_slug.values() for findings in each.values()),
        "publications": {each.slug: _found(each, findings_by_slug[each.slug]) for each in publications},
    }  # fmt: skip


def _found(publication: Publication, by_rule: Mapping[str, tuple[Finding, ...]]) -> dict[str, Any]:
    flagged = {(finding.table, finding.row) for findings in by_rule.values() for finding in findings}
    rows = [(table.title, row.label) for table in publication.tables for row in table.rows]
    return {
        "source": publication.source,
        "rows": len(rows),
        "statements": len(publication.statements),
        "sound_rows": sum(row not in flagged for row in rows),
        "findings": sum(map(len, by_rule.values())),
        "rules_broken": len(by_rule),
        "rules": {
            rule: {
                "count": len(findings),
                "findings": {str(number): plain_json(finding) for number, finding in enumerate(findings)},
            }
            for rule, findings in by_rule.items()
        },
    }


def _lede(view: DataView) -> Sentence:
    lede = (
        "Before anything is published here, {rule_count} rules check whether the hardware allows it and whether it "
        "contradicts itself."
    )
    if view.value("publication_count"):
        lede += (
            " On {publication_count} public benchmark projects with {rows:many} rows in all, the same rules find "
            "{findings:many} things to look at again."
        )
    return sentence(view, lede, many=_many)


def _own(view: DataView) -> Sentence:
    return sentence(
        view.at("own"),
        "This site was checked by the same rules when it was built: {rows:many} rows in {tables:many} tables and "
        "{statements:many} statements on {pages} pages. A broken binding rule would have stopped the build; the others "
        "find {findings:many} things here.",
        many=_many,
    )


def _many(count: int) -> str:
    return f"{count:,}"


def _rules(view: DataView) -> PageTable:
    """Every rule, under the principle that it serves; how often it found something, where publications are audited."""
    rows, counted = [], bool(view.value("publication_count"))
    for principle in dict.fromkeys(rule.principle for rule in RULES):
        rows.append(table_row(principle, kind="group"))
        for rule in (rule for rule in RULES if rule.principle == principle):
            acts = "refuses" if rule.binding else "points out"
            count = (view.figure("rules", rule.name),) if counted else ()
            rows.append(table_row(rule.name, Constant((rule.statement,)), acts, *count, id=rule.name))
    found = (column("findings", "Found below"),) if counted else ()
    heads = (named("rule", "Rule"), named("statement", "A finding is"), named("binding", "Here it"), *found)
    return PageTable(label="The rules", kind="prose-table stacks", group="principle", heads=heads, rows=rows)


def _publication(publication: Publication, view: DataView, experiments: Collection[str]) -> View:
    at = view.at("publications", publication.slug)
    sources = dict.fromkeys(each.source for each in (*publication.tables, *publication.statements))
    again = [each.experiment for each in publication.replications if each.experiment in experiments]
    return View(publication=publication, title=publication.title, slug=publication.slug, summary=_summary(at),
                sources=sources, findings=_findings(publication.title, at), again=again)  # fmt: skip


def _own_page(page: Mapping[str, Any], view: DataView) -> View:
    """A page of this site of which a rule that is not binding says something."""
    at = view.at("own_pages", page["slug"])
    return View(slug=page["slug"], title=page["title"], summary=_summary(at), findings=_findings(page["title"], at))


def _summary(view: DataView) -> Sentence:
    text = "Findings: {findings}; rules broken: {rules_broken}; {sound_rows} of {rows} rows have none."
    return sentence(view, text)


def _findings(title: str, view: DataView) -> PageTable:
    """What each rule found, under its name and how often it did."""
    rows = []
    for rule in RULES:
        at = view.at("rules", rule.name)
        if numbered := at.value("findings"):
            head = (f"{rule.name}: ", at.figure("count"), below(Constant((rule.statement,))))
            rows += [table_row(head, kind="group"), *(_finding_row(at.at("findings", each)) for each in numbered)]
    heads = (*words("Where"), *numbers("Published", "Allowed or expected"), *words("Why"))
    return PageTable(label=f"Findings in {title}", kind="prose-table stacks", heads=heads, rows=rows)


def _finding_row(view: DataView) -> TableRow:
    table, row = view.value("table"), view.value("row")
    place = Constant((f"{table}: {row}" if table else row,))
    return table_row(place, view.amount("printed"), view.amount("allowed"), Constant(view.sentence("words")))


def _limits(publications: Sequence[Publication], gpus: Sequence[str]) -> PageTable:
    """What the makers say of this site's own GPUs, and of the audited ones; each once, though it has two names."""
    own = [sheet for gpu in gpus if (sheet := datasheet(gpu))]
    audited = [table.limits for publication in publications for table in publication.tables]
    every: list[Datasheet | Limits] = [*own, *audited]
    known: dict[tuple[float, float, str], Datasheet | Limits] = {}
    for limits in every:
        known.setdefault((limits.bytes_per_second, limits.l2_bytes, limits.source), limits)
    rows = [
        table_row(
            Constant((limits.gpu,)),
            Constant((format.amount(limits.bytes_per_second, "bytes_per_second"),)),
            Constant((format.amount(limits.flops_per_second["float16"], "flops_per_second"),)),
            Constant((f"{limits.l2_bytes / 2**20:.0f} MiB",)),
            Constant((limits.source,)),
        )
        for limits in known.values()
    ]
    heads = (*words("GPU"), *numbers("Memory", "Dense float16 matmuls", "L2 cache"), *words("Source"))
    return PageTable(label="What the GPUs can do at most", kind="prose-table stacks", heads=heads, rows=rows)
