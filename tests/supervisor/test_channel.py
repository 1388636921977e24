"""Frames over a real pipe."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator

import pytest

from lab.supervisor.channel import HEADER, LARGEST_FRAME_BYTES, Garbled, Reader, send


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
    assert list(Reader(reader).frames(5)) == sent


def test_a_frame_of_ten_megabytes_arrives_whole(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    big = "x" * (10 << 20)

    def write() -> None:
        send(writer, big)
        send(writer, "after")
        os.close(writer)

    threading.Thread(target=write).start()
    began = time.monotonic()
    assert list(Reader(reader).frames(20)) == [big, "after"]
    assert time.monotonic() - began < 10


def test_a_frame_that_comes_byte_by_byte_arrives(pipe: tuple[int, int]) -> None:
    reader, writer = pipe

    def write() -> None:
        for byte in HEADER.pack(7) + b'"hello"':
            os.write(writer, bytes([byte]))
            time.sleep(0.001)
        os.close(writer)

    threading.Thread(target=write).start()
    assert list(Reader(reader).frames(5)) == ["hello"]


@pytest.mark.parametrize("cut", [1, 3, 4, 8])
def test_a_frame_that_a_crash_cut_short_is_dropped(pipe: tuple[int, int], cut: int) -> None:
    reader, writer = pipe
    send(writer, "whole")
    os.write(writer, (HEADER.pack(6) + b'"torn"')[:cut])
    os.close(writer)
    assert list(Reader(reader).frames(5)) == ["whole"]


def test_silence_beyond_the_deadline_is_a_time_out(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    send(writer, "one")
    found = Reader(reader).frames(0.2)
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
    assert list(Reader(reader).frames(0.5)) == list(range(6))


def test_a_reader_that_was_busy_still_gets_what_lies_in_the_pipe(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    send(writer, "one")
    found = Reader(reader).frames(0.1)
    assert next(found) == "one"
    send(writer, "two")
    time.sleep(0.2)
    assert next(found) == "two"


def test_what_is_no_frame_of_ours_is_refused_and_not_waited_for(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.write(writer, HEADER.pack(LARGEST_FRAME_BYTES + 1))
    with pytest.raises(Garbled, match="announced a frame of 67108865 bytes"):
        list(Reader(reader).frames(5))


def test_a_frame_that_is_not_json_is_refused(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    send(writer, "one")
    os.write(writer, HEADER.pack(4) + b"\xff{][")
    found = Reader(reader).frames(5)
    assert next(found) == "one"
    with pytest.raises(Garbled, match="not JSON"):
        next(found)


def test_a_limit_for_all_frames_ends_also_a_lively_writer(pipe: tuple[int, int]) -> None:
    reader, writer = pipe

    def write() -> None:
        for number in range(20):
            send(writer, number)
            time.sleep(0.05)

    thread = threading.Thread(target=write)
    thread.start()
    with pytest.raises(TimeoutError, match="took more than 0 s in all"):
        list(Reader(reader).frames(5, limit_seconds=0.3))
    thread.join()


def test_a_reader_that_pauses_between_frames_loses_none_and_starts_its_deadline_anew(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    channel = Reader(reader)
    send(writer, "one")
    send(writer, "two")
    assert next(channel.frames(0.1)) == "one"
    time.sleep(0.2)
    assert next(channel.frames(0.1)) == "two"
    threading.Timer(0.05, send, (writer, "three")).start()
    assert next(channel.frames(0.5)) == "three"


def test_nan_is_not_sent(pipe: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        send(pipe[1], float("nan"))
