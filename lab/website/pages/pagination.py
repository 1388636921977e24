"""Long lists over several pages, so that the first one stays light however many items there are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

PER_PAGE = 200
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf(Generic[Item]):
    """One page of a list. `previous` and `next`: the paths of those beside it, or nothing."""

    number: int
    of: int
    path: str
    items: tuple[Item, ...]
    previous: str
    next: str


def leaves(items: Sequence[Item], folder: str, first: str = "", per_page: int = PER_PAGE) -> Iterator[Leaf[Item]]:
    """`folder`/index.html (or `first`), then `folder`/page-2/index.html and so on; one page where there is nothing."""
    count = max(1, -(-len(items) // per_page))
    paths = [first or f"{folder}/index.html", *(f"{folder}/page-{number}/index.html" for number in range(2, count + 1))]
    for index, path in enumerate(paths):
        yield Leaf(
            number=index + 1, of=count, path=path, items=tuple(items[index * per_page : (index + 1) * per_page]),
            previous=paths[index - 1] if index else "",
            next=paths[index + 1] if index + 1 < count else "",
        )  # fmt: skip
