"""Frames over a real pipe."""

import contextlib
import itertools
import os
import threading
from collections.abc import Iterator

import pytest

from lab.process.channel import HEADER, LARGEST_FRAME_BYTES, FramesTimeout, Garbled, Reader, send

PATIENCE = 600.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        with contextlib.suppress(OSError):  # the test may have closed it
            os.close(descriptor)


def test_frames_arrive_in_order_until_the_writer_closes(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    sent = [{"kind": "Cell", "content": [1, 2.5, None, "µ\n"]}, [], "text", 7]
    for data in sent:
        send(writer, data)
    os.close(writer)
    assert list(Reader(reader).frames(PATIENCE)) == sent


def test_a_frame_of_ten_megabytes_arrives_whole(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    big = "x" * (10 << 20)

    def write() -> None:
        send(writer, big)
        send(writer, "after")
        os.close(writer)

    threading.Thread(target=write).start()
    assert list(Reader(reader).frames(PATIENCE)) == [big, "after"]


def test_a_frame_that_comes_byte_by_byte_arrives(pipe: tuple[int, int]) -> None:
    reader, writer = pipe

    def write() -> None:
        for byte in HEADER.pack(7) + b'"hello"':
            os.write(writer, bytes([byte]))
        os.close(writer)

    threading.Thread(target=write).start()
    assert list(Reader(reader).frames(PATIENCE)) == ["hello"]


@pytest.mark.parametrize("cut", [1, 3, 4, 8])
def test_a_frame_that_a_crash_cut_short_is_dropped(pipe: tuple[int, int], cut: int) -> None:
    reader, writer = pipe
    send(writer, "whole")
    os.write(writer, (HEADER.pack(6) + b'"torn"')[:cut])
    os.close(writer)
    assert list(Reader(reader).frames(PATIENCE)) == ["whole"]


@pytest.fixture
def ten_seconds_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the reader's clock finds it ten seconds later."""
    monkeypatch.setattr("lab.process.channel.monotonic", itertools.count(0.0, 10.0).__next__)


@pytest.mark.usefixtures("ten_seconds_a_look")
def test_silence_beyond_the_deadline_is_a_time_out(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    send(writer, "one")
    frames = Reader(reader).frames(35.0)
    assert next(frames) == "one"
    with pytest.raises(TimeoutError, match="gave no sign of life for 35 s"):
        next(frames)


@pytest.mark.usefixtures("ten_seconds_a_look")
def test_each_sign_of_life_starts_the_deadline_anew(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    frames = Reader(reader).frames(35.0)
    for number in range(10):  # each takes two looks at least
        send(writer, number)
        assert next(frames) == number


@pytest.mark.usefixtures("ten_seconds_a_look")
def test_a_reader_that_was_busy_still_gets_what_lies_in_the_pipe(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    send(writer, "one")
    frames = Reader(reader).frames(5.0)
    assert next(frames) == "one"
    send(writer, "two")
    assert next(frames) == "two"


def test_what_is_no_frame_of_ours_is_refused_and_not_waited_for(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.write(writer, HEADER.pack(LARGEST_FRAME_BYTES + 1))
    with pytest.raises(Garbled, match="announced a frame of 67108865 bytes"):
        list(Reader(reader).frames(PATIENCE))


def test_a_frame_that_is_not_json_is_refused(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    send(writer, "one")
    os.write(writer, HEADER.pack(4) + b"\xff{][")
    frames = Reader(reader).frames(PATIENCE)
    assert next(frames) == "one"
    with pytest.raises(Garbled, match="not JSON"):
        next(frames)


@pytest.mark.usefixtures("ten_seconds_a_look")
def test_a_limit_for_all_frames_ends_also_a_lively_writer(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    frames = Reader(reader).frames(1e9, limit_seconds=95.0)
    for _ in range(20):
        send(writer, "alive")
    with pytest.raises(FramesTimeout, match="took more than 95 s in all"):
        list(frames)


@pytest.mark.usefixtures("ten_seconds_a_look")
def test_a_reader_that_pauses_between_frames_loses_none_and_starts_its_deadline_anew(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    channel = Reader(reader)
    send(writer, "one")
    send(writer, "two")
    for number in ("one", "two"):
        assert next(channel.frames(25.0)) == number
    send(writer, "three")
    assert next(channel.frames(25.0)) == "three"


def test_nan_is_not_sent(pipe: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        send(pipe[1], float("nan"))
