"""Where pages lie, relative to the root of the site. Pure.

What is published keeps its address: a run's is its digest, and a verdict's that of its run and its experiment.
"""

import hashlib
import re

from lab.definition.experiment import SLUG

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
    return name if SLUG.fullmatch(name) else f"{_slug(name, 'experiment')}-{_hash(name)}"


def gpu_folder(name: str) -> str:
    """'gpus/nvidia-h100-80gb-hbm3'."""
    return f"gpus/{_slug(name, 'gpu')}"


def pair_folder(older: str, newer: str) -> str:
    """Of the comparison of two runs, given by their digests."""
    return f"compare/{short(older)}-{short(newer)}"


def _slug(text: str, otherwise: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-")
    return plain or f"{otherwise}-{_hash(text)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
