"""What the finder and the search answer at shapes that no experiment lists: those of `lab zoo`, as a script."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lab.website import format
from lab.website.addresses import SITE
from lab.website.data.winners import gpu_of
from lab.website.data.zoo_runs import Part, is_screening
from lab.website.figure import Show
from lab.website.pages.labels import DTYPES, operator_title, profile_title
from lab.website.pages.run_links import verdict_link

SCRIPT = "zoo/shapes.js"


class Tried(NamedTuple):
    """What a page says of a shape in one scope, in texts: ours against the best rival there.

    `at` is where the data of the zoo's page hold it. `screened`: with fewer samples than usual."""

    gpu: str
    mode: str
    title: str
    shape: str
    dtype: str
    ours: str
    seconds: str
    rival: str
    rival_seconds: str
    ratio: str
    screened: bool
    at: str
    page: str


def tried_script(gpus: Mapping[str, Sequence[Part]], data: Mapping[str, Any], show: Show) -> str:
    """A classic script, which works from a file too. `data`: of lab.website.data.zoo; `show` writes a ratio."""
    rows = [row for gpu, parts in gpus.items() for part in parts for row in _of_part(gpu, part, data, show)]
    whole = {"columns": Tried._fields, "rows": rows}
    return f"window.kernelEvidenceTried = {json.dumps(whole, separators=(',', ':'), ensure_ascii=False)};\n"


def _of_part(gpu: str, part: Part, data: Mapping[str, Any], show: Show) -> Iterator[Tried]:
    item = part.item
    for scope, held in data["gpus"][gpu]["scopes"].items():
        for case in part.cases:
            if not (each := held["cases"].get(case.name)):
                continue
            yield Tried(
                gpu=gpu_of(item), mode=scope, title=operator_title(case.op), shape="×".join(map(str, case.shape)),
                dtype=DTYPES.get(case.dtype, case.dtype), ours=profile_title(item, each["subject"]),
                seconds=format.brief_time(each["seconds"]), rival=profile_title(item, each["rival"]),
                rival_seconds=format.brief_time(each["rival_seconds"]), ratio=show(each["ratio"]),
                screened=is_screening(item), at=f"/gpus/{gpu}/scopes/{scope}/cases/{case.name}/",
                page=verdict_link(item).removeprefix(SITE),
            )  # fmt: skip
