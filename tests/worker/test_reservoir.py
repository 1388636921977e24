"""Which call is checked is drawn after it has run, with the same chance for each."""

from collections import Counter

from lab.worker.reservoir import Reservoir


def drawn(one_in: int, calls: int) -> int | None:
    draw: Reservoir[int] = Reservoir(one_in)
    for call in range(calls):
        draw.offer(lambda call=call: call)
    return draw.kept


def test_of_a_block_that_must_be_checked_each_call_is_kept_equally_often() -> None:
    counts = Counter(drawn(0, 5) for _ in range(5000))
    assert set(counts) == set(range(5))
    assert all(850 < count < 1150 for count in counts.values())  # five standard deviations


def test_of_other_blocks_each_call_is_kept_once_in_so_many() -> None:
    counts = Counter(drawn(20, 5) for _ in range(4000))
    assert 2900 < counts.pop(None) < 3300  # 0.95 to the fifth
    assert set(counts) == set(range(5))


def test_a_call_that_is_not_drawn_is_not_copied() -> None:
    copied = []
    draw: Reservoir[None] = Reservoir(1 << 60)
    for _ in range(10):
        assert not draw.offer(lambda: copied.append(1))
    assert copied == []
    assert Reservoir(1).offer(lambda: None)
