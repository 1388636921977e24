"""A lab of few experiments, for tests of what does not depend on how many there are."""

from collections.abc import Iterator

import pytest

from lab.website import site
from lab.website.data.judged_cache import definitions

# The last two because other pages link to theirs.
FEW = ("normalization-fusion", "softmax-fusion", "gpu-ceilings", "headline-tables", "cheating-kernels")


@pytest.fixture(scope="module")
def few_experiments() -> Iterator[None]:
    """Sites of this module's tests show these alone: each of the others costs as much time to build and verify."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "definitions", lambda kept: [each for each in definitions(kept) if each.name in FEW])
        yield
