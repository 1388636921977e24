"""The pages that belong to no single experiment: front page, decisions, policy."""

from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt

from lab import judge
from lab.decisions import Decision, Standing, freshness
from lab.judge import RULES
from lab.pages.views import DecisionLink, ExperimentPage
from lab.results import ClaimResult


@dataclass(frozen=True, kw_only=True, slots=True)
class SupportView:
    """One claim that a decision rests on: as expected, when decided, and now."""

    experiment: str
    claim: str
    text: str
    expects: str
    then: str
    now: str
    freshness: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionPage:
    slug: str
    title: str
    status: str
    freshness: str
    date: str
    review_by: str
    acknowledged: str
    body_html: str
    supports: tuple[SupportView, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyPage:
    version: int
    rules: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """Everything that is rendered. `label` is set on a preview, so that nobody takes it for published."""

    label: str
    experiments: tuple[ExperimentPage, ...]
    decisions: tuple[DecisionPage, ...]
    decision_links: tuple[DecisionLink, ...]
    policy: PolicyPage


def decision_page(decision: Decision, found: Sequence[Standing]) -> DecisionPage:
    return DecisionPage(
        slug=decision.slug,
        title=decision.title,
        status=decision.status,
        freshness=freshness(found),
        date=decision.date.isoformat(),
        review_by=decision.review_by.isoformat(),
        acknowledged=decision.acknowledged,
        # Raw HTML in a record stays text; markdown-it refuses script and data links by itself.
        body_html=MarkdownIt("commonmark", {"html": False}).render(decision.body),
        supports=tuple(_support(standing) for standing in found),
    )


def policy_page() -> PolicyPage:
    """The rules as the judge applies them, from its own constants."""
    return PolicyPage(
        version=judge.POLICY_VERSION,
        rules=tuple((str(status), text) for status, text in RULES.items()),
        constants=(
            ("Fewest sweeps for a verdict", str(judge.FEWEST_SWEEPS)),
            ("Sweeps below which a verdict is provisional", str(judge.FULL_SWEEPS)),
            ("Noise ratio that is noisy", f"{judge.NOISY_RATIO:.2f} and above"),
            ("Widest half-width of an interval", f"{judge.WIDEST_HALF_WIDTH:.0%}"),
            ("Largest share of void samples", f"{judge.LARGEST_DROPPED_SHARE:.0%}"),
            ("Margin above parity that a sweep must clear", f"{judge.CLEAR_MARGIN:.0%}"),
            ("Margin around parity that counts as equivalent", f"{judge.EQUIVALENCE_MARGIN:.0%}"),
        ),
    )


def _support(standing: Standing) -> SupportView:
    support, now = standing.support, standing.now
    return SupportView(
        experiment=support.experiment,
        claim=support.claim,
        text=now.claim.text if now else "",
        expects=support.expects,
        then=_told(standing.then) if support.evidence else "not pinned",
        now=_told(now),
        freshness=standing.freshness,
    )


def _told(result: ClaimResult | None) -> str:
    return str(result.status) if result else "no evidence"
