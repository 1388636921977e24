"""Sites that are built quickly: of few experiments, and by code that is known to stay."""

from collections.abc import Iterator
from functools import cache

import pytest
from few_experiments import FEW, only

from lab.project import project
from lab.website.sources import digest_of


@pytest.fixture(scope="module")
def few_experiments(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sites of this module's tests show these alone, or those that it names in SHOWN."""
    with only(getattr(request.module, "SHOWN", FEW)):
        yield


@pytest.fixture(scope="session", autouse=True)
def code_that_stays() -> Iterator[None]:
    """A build reads the lab's code eight times to see whether it has changed; while tests run it does not."""
    known = cache(digest_of)

    def digest(*places: str) -> str:
        return known(*places) if project().is_the_labs_own else digest_of(*places)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("build", "data.judged_cache"):
            patch.setattr(f"lab.website.{module}.digest_of", digest)
        yield
