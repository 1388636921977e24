"""Where pages lie, relative to the root of the site. Pure.

What is published keeps its address: a run's is its digest, and a verdict's that of its run and its experiment.

A link or pointer that begins with SITE goes from the root; where its page is written, it becomes relative to the page.
"""

import hashlib
import re

from lab.definition.experiment import SLUG

SITE = "site:"
DTYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "float8_e4m3fn": "f8"}


def measured_on(device: str, gpu: str, cpu: str, cpu_count: int) -> str:
    """Of the fields of a Machine: the GPU, or plainly the CPU."""
    return gpu if device == "cuda" else f"CPU: {cpu}, {cpu_count} cores"


SHORT = 12  # characters of a digest


def short(digest: str) -> str:
    return digest[:SHORT]


def run_folder(digest: str) -> str:
    return f"runs/{short(digest)}"


def verdict_folder(digest: str, experiment: str) -> str:
    """Of an experiment as one run has it, for ever."""
    return f"{run_folder(digest)}/{experiment_folder(experiment)}"


def experiment_folder(name: str) -> str:
    """The name itself where it is a slug; evidence may hold any name, and none may lead out of the site."""
    if SLUG.fullmatch(name):
        return name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60].strip("-")
    return f"{plain or 'experiment'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def case_address(case: str) -> str:
    """From its experiment's page."""
    return f"cases/{experiment_folder(case)}/index.html"


def pair_folder(older: str, newer: str) -> str:
    """Of the comparison of two runs, given by their digests."""
    return f"compare/{short(older)}-{short(newer)}"


def relative(html: str, root: str) -> str:
    """A page whose links and pointers go from itself; `root` leads from it to the root. No text holds a bare quote."""
    return html.replace(f'"{SITE}', f'"{root}')
