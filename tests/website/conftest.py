"""A lab of few experiments, for tests of what does not depend on how many there are."""

from collections.abc import Iterator

import pytest
from few_experiments import FEW, only


@pytest.fixture(scope="module")
def few_experiments(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sites of this module's tests show these alone, or those that it names in SHOWN."""
    with only(getattr(request.module, "SHOWN", FEW)):
        yield
