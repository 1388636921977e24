"""All rules, and what they find in a publication. Pure: the same figures, the same findings, on any machine."""

from collections.abc import Mapping

from lab.definition.publication import Publication
from lab.verdict.audit import ceilings, counters, launches, statements, tables
from lab.verdict.audit.finding import Finding

RULES = (*ceilings.RULES, *launches.RULES, *counters.RULES, *tables.RULES, *statements.RULES)


BINDING = frozenset(rule.name for rule in RULES if rule.binding)


def audit(publication: Publication) -> Mapping[str, tuple[Finding, ...]]:
    """What each rule finds, by the rule's name; rules that find nothing are left out."""
    by_rule = {rule.name: tuple(rule.find(publication)) for rule in RULES}
    return {name: findings for name, findings in by_rule.items() if findings}
