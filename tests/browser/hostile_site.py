"""A published site of evidence in which every free text attacks: the page, its script, its layout, its reader."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from factory import ceiling_seconds, machine, plan_of, publish, records_of, write_run
from few_experiments import only
from rich_site import CLAIM, FAST, SHOWN

from lab.definition.catalogue import choose_experiments
from lab.definition.experiment import CEILINGS
from lab.definition.plan import Plan
from lab.evidence.codec import from_data, to_data
from lab.website.site import build_site

MARKUP = "</title></script></style><script>window.ran=1</script><img src=x onerror=window.ran=1><b>B</b>'\"&amp;]]>-->"
TEMPLATE = "{{ 7*7 }}{% include 'x' %}${7*7}"
SCHEMES = "javascript:window.ran=1 data:text/html,<script>window.ran=1</script>"
HIDDEN = "a\u202eb\u2066c\u200bd\x00e\x1b[31mf\x85g\ufeffh\U000e0041i\ud800j"
LONG = "W" * 300
HOSTILE = f"EVIL {MARKUP} {TEMPLATE} {SCHEMES} {HIDDEN} {LONG}"
# Every text that a person or a machine wrote freely; names, which are part of addresses, are refused when read.
OF_PLANS = {"title", "question", "importance", "focus", "project", "description", "technique", "hypothesis", "signal",
            "text"}  # fmt: skip
LISTS = {"does_not_show", "metrics", "expected"}
OF_MACHINES = ("gpu", "driver", "cuda", "torch", "triton", "ncu", "python", "os", "cpu", "ecc", "mig")


def hostile_site(root: Path) -> Path:
    """Build it under `root`; returns the site."""
    evidence = root / "evidence"
    experiments = choose_experiments(["normalization-fusion", "rope-fusion", CEILINGS])
    for name in ("first", "second"):  # two runs, so that pages that compare have something to compare
        plan = plan_of(name, experiments=experiments, profiling=True, sweeps=3)
        pinned = publish(evidence, _run(root / "runs" / name, plan))
    _decisions(root / "decisions", pinned)
    with only(SHOWN):
        build_site(root / "site", root / "decisions", evidence)
    return root / "site"


def _run(directory: Path, plan: Plan) -> Path:
    plan = from_data(Plan, poisoned(to_data(plan)))
    outcomes = {"torch-compile": ("failed", HOSTILE), "liger": ("wrong", HOSTILE)}
    box = machine(
        **dict.fromkeys(OF_MACHINES, HOSTILE),
        environment={"TRITON_CACHE_DIR": HOSTILE},
        libraries={"liger-kernel": HOSTILE},
    )
    records = records_of(plan, FAST | ceiling_seconds(), outcomes=outcomes, on=box)
    named = [_renamed(record) for record in records]
    write_run(directory, dataclasses.replace(plan, experiments=()), named)
    # Half a character has no UTF-8, but JSON can name it.
    (directory / "plan.json").write_text(json.dumps(to_data(plan, plan.schema)))
    return directory


def poisoned(node: Any, key: str = "") -> Any:
    if isinstance(node, dict):
        return {name: poisoned(item, key if key in LISTS else name) for name, item in node.items()}
    if isinstance(node, list):
        return [poisoned(item, key) for item in node]
    return HOSTILE if isinstance(node, str) and key in OF_PLANS | LISTS else node


def _renamed(record: Any) -> Any:
    """Counters whose kernels, reasons and instrument carry the attack too."""
    if not hasattr(record, "kernels"):
        return record
    kernels = tuple(dataclasses.replace(kernel, name=HOSTILE, grid=HOSTILE) for kernel in record.kernels)
    return dataclasses.replace(record, kernels=kernels, reason=record.reason and HOSTILE, ncu=HOSTILE)


def _decisions(folder: Path, pinned: str) -> None:
    folder.mkdir()
    written = HOSTILE.replace(
        TEMPLATE, ""
    )  # two braces of an author are a reference, and refused where they lead nowhere
    title = json.dumps(written.replace("\ud800", ""))  # YAML reads it, and knows no half characters
    (folder / "0001-evil.md").write_text(
        f"---\ntitle: {title}\nstatus: accepted\ndate: 2026-01-01\nreview_by: 2027-01-01\nacknowledged: {title}\n"
        f"rests_on:\n  - {{claim: {CLAIM}, expects: refuted, acknowledged: supported, evidence: {pinned}}}\n---\n"
        f"## {written}\n\n{written}\n\n[go](javascript:window.ran=1) ![x](https://example.invalid/x.png)\n\n`{LONG}`\n\n"
        f"- {LONG}\n".replace("\ud800", "")
    )
