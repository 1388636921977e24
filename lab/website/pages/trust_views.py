"""What the page on trust may show: tables, complete and already in words."""

from dataclasses import dataclass

from lab.website.figure import Figure, Sentence

Row = tuple[Sentence, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TableView:
    """`goal` says what the rows are held to."""

    anchor: str
    title: str
    about: str
    goal: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    summary: Sentence = ()

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold figures."""
        return tuple(
            any(isinstance(part, Figure) for cell in column for part in cell) for column in zip(*self.rows, strict=True)
        )


def one(figure: Figure | None) -> Sentence:
    return (figure or "–",)
