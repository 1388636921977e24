"""Figures in the prose of a decision: of the GPU model that its claims rest on, whichever its experiments' pages show.

Beside a table of one GPU's evidence a figure of another's would read as if it were of the same.
"""

from collections.abc import Sequence
from typing import Any

from lab.website.addresses import verdict_folder
from lab.website.data.judged import Judged, verdict_data
from lab.website.decisions import SupportStanding, machines
from lab.website.wording.references import References


class DecisionReferences(References):
    """Looks up what one decision refers to.

    `published` is empty in a preview, which has no pages of other runs: there a reference shows no value instead.
    """

    def __init__(
        self,
        supports: Sequence[SupportStanding],
        current: Sequence[Judged],
        published: Sequence[Judged],
        *,
        lenient: bool = False,
    ) -> None:
        super().__init__({item.name: item for item in current}, lenient=lenient)
        self._supports = [standing for standing in supports if standing.now]
        self._machines = machines(supports)
        self._current = {item.name: item for item in current}
        self._published = published

    def _data_of(self, experiment: str, path: Sequence[str]) -> tuple[Any, str]:
        shown = self._current.get(experiment)
        if shown is None:
            return super()._data_of(experiment, path)
        item = self._rested_on(experiment, path) or self._of_its_gpu(shown)
        if item and item.digest == shown.digest:
            return super()._data_of(experiment, path)
        if item is None or not self._published:
            raise LookupError(self._of_another(shown))
        return verdict_data(item.data), verdict_folder(item.digest, experiment)

    def _rested_on(self, experiment: str, path: Sequence[str]) -> Judged | None:
        """What the table shows of the claim, or else of another of the same experiment."""
        own = [each for each in self._supports if each.support.experiment == experiment]
        own.sort(key=lambda each: [*path[:2]] != ["claims", each.support.claim])
        return next((each.now.judged for each in own if each.now), None)

    def _of_its_gpu(self, shown: Judged) -> Judged | None:
        """What the page shows, or the fullest evidence of a GPU model that the claims rest on; None without any."""
        if not self._machines or shown.machine_name in ("", *self._machines):
            return shown
        same = [run for run in self._published if run.name == shown.name and run.machine_name in self._machines]
        return max(same, key=lambda run: run.fullness, default=None)

    def _of_another(self, shown: Judged) -> str:
        return (
            f"would be a figure of {shown.machine_name}, but the decision rests on evidence of "
            f"{' and '.join(self._machines)}; name a figure of that, or rest on a claim of {shown.name} too"
        )
