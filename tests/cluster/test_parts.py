"""How sweeps are dealt to GPUs: whole cases, equal shares, and boards that take turns."""

from collections import Counter

from lab.cluster.parts import Part, deal, lacking_of, next_part, sweeps_after


def cells(**profiles: int) -> list[tuple[str, str, str]]:
    """So many profiles of each case."""
    return [("e", case, f"p{number}") for case, count in profiles.items() for number in range(count)]


def test_parts_hold_each_cell_once_and_whole_cases_only() -> None:
    wanted = cells(a=3, b=2, c=4, d=1)
    parts = deal(0, wanted, 2)
    assert sorted(key for part in parts for key in part.wanted) == sorted(wanted)
    assert not parts[0].places & parts[1].places


def test_parts_are_about_equal() -> None:
    assert sorted(len(part.wanted) for part in deal(0, cells(a=5, b=5, c=5, d=5, e=2, f=2), 3)) == [7, 7, 10]


def test_there_are_no_more_parts_than_cases_and_none_of_nothing() -> None:
    assert len(deal(0, cells(a=2, b=2), 8)) == 2
    assert deal(0, [], 8) == []


def test_boards_take_turns_at_each_case_and_sweeps_come_in_order() -> None:
    waiting = [part for sweep in range(4) for part in deal(sweep, cells(a=2, b=2, c=2, d=2), 4)]
    measured = [Counter[tuple[str, str]]() for _ in range(4)]
    chosen: list[list[Part]] = [[] for _ in range(4)]
    while waiting:
        for board in range(4):
            part = next_part(waiting, measured[board])
            waiting.remove(part)
            measured[board].update(part.places)
            chosen[board].append(part)
    for parts in chosen:
        assert [part.sweep for part in parts] == [0, 1, 2, 3]
        assert len(frozenset().union(*(part.places for part in parts))) == 4


def test_a_part_goes_on_with_what_is_lacking_and_counts_its_losses() -> None:
    (part,) = deal(2, cells(a=2, b=1), 1)
    left = lacking_of(part, [("e", "b", "p0")])
    assert (left.sweep, left.wanted, left.losses) == (2, (("e", "b", "p0"),), 1)


def test_workers_are_loaded_for_sweeps_that_still_wait() -> None:
    waiting = [part for sweep in (0, 1, 1, 3) for part in deal(sweep, cells(a=1), 1)]
    assert sweeps_after(waiting[0], waiting) == [1, 3]
