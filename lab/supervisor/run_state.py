"""The records of a run. Each is in the journal, synced to disk, before it is used here."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.errors import RunError
from lab.evidence import journal
from lab.evidence.record import Cell, Counters, Machine, Reading, Record, RunStart, SweepStart

ASIDE = "nothing-measured.jsonl"
Key = tuple[str, str, str]  # experiment, case, profile


class RunState:
    """The records of one run directory: those that it had, and those that are added."""

    def __init__(self, directory: Path, records: Sequence[Record]) -> None:
        self.directory = directory
        self.resumed = bool(records)
        self._size_bytes = self._size()
        self.records: list[Record] = []
        self.cells: dict[tuple[int, Key], Cell] = {}
        for record in records:
            self._remember(record)

    def keep(self, *records: Record) -> None:
        """Write the records to the journal, all or none of them."""
        if records:
            self._refuse_altered()
            self._size_bytes = journal.append(self._path, *records)
        for record in records:
            self._remember(record)

    def set_aside(self) -> Path:
        """Rename the journal, so that its run can begin again. Returns the new path."""
        return self._path.rename(self._path.with_name(ASIDE))

    @property
    def code(self) -> str:
        """Digest of the source that the run began with."""
        return next(record.source_digest for record in self.records if isinstance(record, RunStart))

    @property
    def machine(self) -> Machine | None:
        """The machine that the run began on, after the first sweep has started."""
        return next((record.machine for record in self.records if isinstance(record, SweepStart)), None)

    @property
    def several_gpus(self) -> bool:
        return any(isinstance(record, RunStart) and record.several_gpus for record in self.records)

    def lacking(self, sweep: int, wanted: Iterable[Key]) -> list[Key]:
        """Those of the wanted cells that have no record in this sweep."""
        return [key for key in wanted if (sweep, key) not in self.cells]

    def edgeless(self, wanted: Iterable[Key]) -> list[Key]:
        """The wanted cells whose edge inputs must still be checked: no sweep has recorded them, or that the cell is
        wrong without them."""
        answered = {key for (_, key), cell in self.cells.items() if answers_edges(cell)}
        return [key for key in wanted if key not in answered]

    def before(self, sweep: int) -> list[Record]:
        """All records except those of this sweep and of later ones."""
        return [record for record in self.records if getattr(record, "sweep", -1) < sweep]

    def counted(self) -> set[Key]:
        """The cells whose counters are on record."""
        return {key_of(record) for record in self.records if isinstance(record, Counters)}

    def read_already(self, experiment: str) -> dict[tuple[str, str, str], Reading]:
        """What other instruments have read of an experiment, by case, profile and instrument."""
        readings = [record for record in self.records if isinstance(record, Reading)]
        return {(r.case, r.profile, r.instrument): r for r in readings if r.experiment == experiment}

    @property
    def _path(self) -> Path:
        return self.directory / journal.NAME

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.is_file() else 0

    def _refuse_altered(self) -> None:
        """RunError where the journal has another length than after the last record that was written."""
        if (size_bytes := self._size()) != self._size_bytes:
            raise RunError(
                f"{self._path}: holds {size_bytes} bytes, and this run left {self._size_bytes}: another program has "
                "altered it while the run went on. Restore it and resume the run, or use another run id"
            )

    def _remember(self, record: Record) -> None:
        self.records.append(record)
        if isinstance(record, Cell):
            self.cells[record.sweep, key_of(record)] = record


def answers_edges(cell: Cell) -> bool:
    """Whether a cell's edge inputs need not be checked again."""
    return cell.outcome == "wrong" or bool(cell.correctness and cell.correctness.edges)


def key_of(record: Cell | Counters) -> Key:
    return record.experiment, record.case, record.profile
