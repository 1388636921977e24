"""Sites that show some of the lab's experiments: each of the others costs as much time to build and to look at."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pytest

from lab.website import site
from lab.website.data.judged_cache import definitions

# The last two because other pages link to theirs.
FEW = ("normalization-fusion", "softmax-fusion", "gpu-ceilings", "headline-tables", "cheating-kernels")


@contextmanager
def only(names: Collection[str] = FEW) -> Iterator[None]:
    """Sites that are built meanwhile show no others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "definitions", lambda kept: [each for each in definitions(kept) if each.name in names])
        yield
