"""A badge for each claim: an SVG that says the verdict and what it holds for, to be shown elsewhere.

Out of its page a badge has no boundary beside it, so it carries its own: the GPU by its full model (or that it was a
CPU), the data types, the scope, and in its title and description the claim's sentence, the shapes and the evidence.
A range of ratios is shown only where it speaks for every case; each number points at its datum, as on the pages.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from types import SimpleNamespace as View

from lab.definition.claim_words import BYTES_WORDS, claim_sentence
from lab.definition.experiment import SLUG, USUAL_THRESHOLD
from lab.definition.plan import PlannedCase, PlannedClaim
from lab.verdict.judge import Status
from lab.website import format
from lab.website.addresses import DTYPES, case_name
from lab.website.data.judged import Judged
from lab.website.data.verdict_log import contradicting
from lab.website.figure import DataView, Figure, Sentence
from lab.website.outputs import Attachment, Document, SiteContext
from lab.website.pages.labels import TITLES, scope_words
from lab.website.table import icon
from lab.website.verdict_words import mark_words
from lab.website.wording.hidden import plain

HEIGHT = 20
MOST_SHAPES = 6  # in a description; of more it says how many
LONGEST_WORDS = 90  # of the words that the definitions' author chose, before they are cut
# White text on each has a contrast of at least 5:1.
COLOURS = {
    Status.SUPPORTED: "#1a3b65", Status.REFUTED: "#7c3527", Status.INCONCLUSIVE: "#6f6020",
    Status.RERUN_NOISE: "#8c00a0", Status.NO_EVIDENCE: "#5d6475", Status.REJECTED: "#7c3527",
}  # fmt: skip
# Widths of characters at 11 px in Verdana, which is as wide as any that may take its place.
NARROW, WIDE = frozenset("fijlrtI.,:;'!|()[]- "), frozenset("mwMWGOQ@%×")


@dataclass(frozen=True, kw_only=True, slots=True)
class Badge:
    """`label` and `value` are what is drawn, `description` what a reader gets who asks for more."""

    name: str
    claim: str
    text: str
    status: Status
    label: str
    value: Sentence
    description: str
    width: int
    label_width: int

    @property
    def said(self) -> str:
        """All that is drawn, in one line."""
        return f"{self.label}: {_text(self.value)}"


def badge_pages(context: SiteContext) -> Iterator[Attachment | Document]:
    """None of a preview: what is not published is not to be embedded."""
    if context.label:
        return
    for item in context.current:
        folder = f"experiments/{item.plan.name}"
        history = context.history(item.plan.name)
        badges = [badge(item, claim, contradicting(item, claim.name, history)) for claim in item.plan.claims]
        for each in badges:
            yield Attachment(path=f"{folder}/badges/{each.name}.svg", content=svg(each))
        page = View(
            experiment=item.plan.name,
            title=item.plan.title,
            address=context.base_url,
            badges=tuple((each, _markdown(folder, each, context.base_url)) for each in badges),
        )
        yield Document(path=f"{folder}/badges/index.html", template="badges.html", view={"page": page})


def badge(item: Judged, claim: PlannedClaim, newer: Judged | None = None) -> Badge:
    """`newer`: a run that says otherwise, though it does not take the place of the one shown."""
    cases = [case for case in item.plan.cases if case.name in claim.cases and case.included]
    status = Status(item.data["claims"][claim.name]["status"])
    label = _label(item, claim, cases)
    value = _value(item, claim, status, cases)
    if newer:
        value = (*value, f"; {newer.data['claims'][claim.name]['status']} in a newer run")
    label_width, value_width = _width(label) + 16, _width(_text(value)) + 34
    return Badge(
        name=_file_name(claim.name),
        claim=claim.name,
        text=plain(claim_sentence(claim)),
        status=status,
        label=label,
        value=value,
        description=_description(item, claim, status, cases),
        width=label_width + value_width,
        label_width=label_width,
    )


def svg(badge: Badge) -> str:
    """At most 1.5 KB; nothing in it comes from elsewhere."""
    left, right = badge.label_width, badge.width - badge.label_width
    parts = "".join(part if isinstance(part, str) else _tspan(part) for part in _escaped(badge.value))
    sign = icon(badge.status).replace("currentColor", "#fff")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{badge.width}" height="{HEIGHT}" role="img">'
        f"<title>{escape(badge.said)}</title>"
        f"<desc>{escape(badge.description)}</desc>"
        f'<rect width="{left}" height="{HEIGHT}" fill="#33373f"/>'
        f'<rect x="{left}" width="{right}" height="{HEIGHT}" fill="{COLOURS[badge.status]}"/>'
        f'<g transform="translate({left + 6} 4) scale(.75)">{sign}</g>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="8" y="14" textLength="{left - 16}">{escape(badge.label)}</text>'
        f'<text x="{left + 24}" y="14" textLength="{right - 34}">{parts}</text></g></svg>\n'
    )


def _label(item: Judged, claim: PlannedClaim, cases: list[PlannedCase]) -> str:
    """'RoPE: Triton vs torch.compile': the operator where the subject's own title does not name it."""
    titles = {profile.name: profile.title for profile in item.plan.profiles}
    subject, baseline = titles[claim.subject], titles.get(claim.baseline, "the least")
    operators = sorted({TITLES.get(case.op, case.op) for case in cases})
    of = f"{operators[0]}: " if len(operators) == 1 and operators[0].lower() not in subject.lower() else ""
    return _short(f"{of}{subject} vs {baseline}")


def _value(item: Judged, claim: PlannedClaim, status: Status, cases: list[PlannedCase]) -> Sentence:
    """'supported 1.18–1.53×, H100 80GB HBM3, f16': the verdict, how much, and where."""
    if not item.machine or status is Status.NO_EVIDENCE:
        return (str(status),)
    scope = () if claim.scope == "device_cold" else (scope_words(claim.scope, item.on_cpu).title,)
    where = ", ".join(("", *scope, *_where(item, cases)))
    mark = mark_words(item.data["claims"][claim.name]["mark"])
    amount, as_due = _how_much(item, claim, status), str(status) in claim.expected
    marks = f"{', as it should be' * as_due}{', ' * bool(mark)}{mark}"
    return (f"{status}{marks}{',' * bool(marks and amount)}", *amount, where)


def _how_much(item: Judged, claim: PlannedClaim, status: Status) -> Sentence:
    """The ratio with its interval, or the range over cases where each was fit to be weighed; else how many were."""
    view, path = DataView(item.data), ("claims", claim.name)
    asked = view.figure(*path, "threshold", show=format.threshold) or ""
    of = "× the bytes" if claim.measure in BYTES_WORDS else "×"
    least_asked: Sentence = () if claim.threshold == USUAL_THRESHOLD else (" (asked ", asked, ")")
    judged, compared, supported = (view.figure(*path, name) for name in ("judged", "compared", "supported"))
    if status is Status.REJECTED or judged is None or compared is None or supported is None or not compared.value:
        return ()
    if compared.value != judged.value:
        return (" (", supported, " of ", judged, " cases supported)")
    (case, *others) = item.data["claims"][claim.name]["cases"]
    if not others and claim.measure == "speedup":
        ratio, interval = view.ratio(*path, "cases", case), view.interval(*path, "cases", case)
        return (" ", ratio, " ", interval, *least_asked) if ratio and interval else ()
    ends = ("smallest_ratio", "largest_ratio")
    least, most = (view.end(claim.name, name, show=lambda value: format.significant(value, 3)) for name in ends)
    if least is None or most is None:
        return ()
    span: Sentence = (least,) if least.text == most.text else (least, "–", most)
    return (" ", *span, of, *least_asked)


def _where(item: Judged, cases: list[PlannedCase]) -> tuple[str, ...]:
    machine = plain(item.machine["cpu"]) if item.on_cpu else plain(item.machine["gpu"]).removeprefix("NVIDIA ")
    dtypes = "/".join(dict.fromkeys(DTYPES.get(case.dtype, case.dtype) for case in cases))
    return (_short(f"CPU evidence: {machine}" if item.on_cpu else machine), *((dtypes,) if dtypes else ()))


def _description(item: Judged, claim: PlannedClaim, status: Status, cases: list[PlannedCase]) -> str:
    """The claim, and all that its verdict is bound to."""
    text = _short(claim_sentence(claim), 200)
    if not item.machine or status is Status.NO_EVIDENCE:
        return f"{text} No published evidence speaks of it."
    more = f" and {len(cases) - MOST_SHAPES} more" if len(cases) > MOST_SHAPES else ""
    of = BYTES_WORDS.get(claim.measure)
    scope = of.counted if of else scope_words(claim.scope, item.on_cpu).title
    machine = plain(item.machine["cpu" if item.on_cpu else "gpu"])
    return (
        f"{text} Measured on {'the CPU ' if item.on_cpu else ''}{machine}: {scope}, "
        f"{', '.join(_listed(cases[:MOST_SHAPES]))}{more}. It holds for nothing else. "
        f"Evidence {item.digest[:12]} of {format.day(item.evidence['finished_utc'])}."
    )


def _listed(cases: list[PlannedCase]) -> Iterator[str]:
    """Their names; dtype and operator stand after the last of those that share them."""
    for case, following in zip(cases, [*cases[1:], None], strict=True):
        shape, _, kind = case_name(case).partition(" ")
        alike = following is not None and case_name(following).partition(" ")[2] == kind
        yield shape if alike else f"{shape} {kind}"


def _file_name(claim: str) -> str:
    """The claim's name where it is a slug; evidence may hold any name, and none may lead out of the folder."""
    return claim if SLUG.fullmatch(claim) else hashlib.sha256(claim.encode()).hexdigest()[:12]


def _markdown(folder: str, badge: Badge, address: str) -> str:
    where = f"{address or 'ADDRESS/'}{folder}"
    words = re.sub(r"([\\`*_\[\]<>])", r"\\\1", badge.text)
    return f"[![{words}]({where}/badges/{badge.name}.svg)]({where}/index.html#claim-{badge.claim})"


def _tspan(figure: Figure) -> str:
    return f'<tspan data-value="{figure.value}" data-src="../data.json#{figure.source}">{figure.text}</tspan>'


def _escaped(sentence: Sentence) -> Iterator[Figure | str]:
    return (escape(part) if isinstance(part, str) else part for part in sentence)


def _text(sentence: Sentence) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def _short(text: str, longest: int = LONGEST_WORDS) -> str:
    text = plain(text)
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _width(text: str) -> int:
    """In pixels at 11 px, a little more than less: the text is set to fill it."""
    return round(sum(4.1 if char in NARROW else 9.4 if char in WIDE else 6.8 for char in text))
