"""Frames over a real pipe."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator

import pytest

from lab.channel import HEADER, LARGEST_FRAME_BYTES, frames, send
from lab.errors import RunError


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
    assert list(frames(reader, 5)) == sent


def test_a_frame_of_ten_megabytes_arrives_whole(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    big = "x" * (10 << 20)

    def write() -> None:
        send(writer, big)
        send(writer, "after")
        os.close(writer)

    threading.Thread(target=write).start()
    began = time.monotonic()
    assert list(frames(reader, 20)) == [big, "after"]
    assert time.monotonic() - began < 10


def test_a_frame_that_comes_byte_by_byte_arrives(pipe: tuple[int, int]) -> None:
    reader, writer = pipe

    def write() -> None:
        for byte in HEADER.pack(7) + b'"hello"':
            os.write(writer, bytes([byte]))
            time.sleep(0.001)
        os.close(writer)

    threading.Thread(target=write).start()
    assert list(frames(reader, 5)) == ["hello"]


@pytest.mark.parametrize("cut", [1, 3, 4, 8])
def test_a_frame_that_a_crash_cut_short_is_dropped(pipe: tuple[int, int], cut: int) -> None:
    reader, writer = pipe
    send(writer, "whole")
    os.write(writer, (HEADER.pack(6) + b'"torn"')[:cut])
    os.close(writer)
    assert list(frames(reader, 5)) == ["whole"]


def test_silence_beyond_the_deadline_is_a_time_out(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    send(writer, "one")
    found = frames(reader, 0.2)
    assert next(found) == "one"
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        next(found)
    assert 0.1 < time.monotonic() - began < 2


def test_each_sign_of_life_starts_the_deadline_anew(pipe: tuple[int, int]) -> None:
    reader, writer = pipe

    def write() -> None:
        for number in range(6):
            time.sleep(0.1)
            send(writer, number)
        os.close(writer)

    threading.Thread(target=write).start()
    assert list(frames(reader, 0.5)) == list(range(6))


def test_a_reader_that_was_busy_still_gets_what_lies_in_the_pipe(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    send(writer, "one")
    found = frames(reader, 0.1)
    assert next(found) == "one"
    send(writer, "two")
    time.sleep(0.2)
    assert next(found) == "two"


def test_what_is_no_frame_of_ours_is_refused_and_not_waited_for(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.write(writer, HEADER.pack(LARGEST_FRAME_BYTES + 1))
    with pytest.raises(RunError, match="announced a frame of 67108865 bytes"):
        list(frames(reader, 5))


def test_nan_is_not_sent(pipe: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        send(pipe[1], float("nan"))
