"""Threads and children of a profile may wait, and not work while another is timed."""

import subprocess
import sys
import threading
import time

import pytest

from lab.worker.background_work import SHORTEST_SECONDS, TASKS, BackgroundWork

pytestmark = pytest.mark.skipif(
    not (TASKS / str(threading.get_native_id()) / "schedstat").exists(), reason="no schedstat"
)
WORK = "import time\nwhile True: pass"
WAIT = "import time; time.sleep(1000)"


def worked(background: BackgroundWork, patience_seconds: float = 600.0) -> list[str]:
    """Who was accused while another was timed; however slow the machine is."""
    until = time.monotonic() + patience_seconds
    owners: list[str] = []
    while not owners and time.monotonic() < until:
        time.sleep(0.02)
        owners = [owner for owner, _ in background.look("rival")]
    return owners


@pytest.mark.parametrize(("program", "accused", "patience_seconds"), [(WORK, ["cheat"], 600.0), (WAIT, [], 0.5)])
def test_a_child_may_wait_and_not_work(program: str, accused: list[str], patience_seconds: float) -> None:
    background = BackgroundWork()
    child = subprocess.Popen([sys.executable, "-S", "-c", program])
    try:
        time.sleep(0.2)  # starting is work too
        assert list(background.look("cheat")) == []
        assert worked(background, patience_seconds) == accused
    finally:
        child.kill()
        child.wait()


def test_a_thread_that_works_beside_a_rival_is_its_owners_fault() -> None:
    background, over = BackgroundWork(), threading.Event()

    def work() -> None:
        while not over.is_set():
            pass

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        assert list(background.look("cheat")) == []
        assert worked(background) == ["cheat"]
    finally:
        over.set()
        thread.join()


def test_work_between_calls_by_a_thread_of_its_own_is_reported() -> None:
    background, wake, over = BackgroundWork(), threading.Event(), threading.Event()

    def serve() -> None:
        while wake.wait() and not over.is_set():
            until = time.thread_time() + 2 * SHORTEST_SECONDS
            while time.thread_time() < until:
                pass
            wake.clear()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    list(background.look("cheat"))
    for _ in range(3):
        background.before_call("cheat")
        background.after_call("cheat")
        wake.set()
        while wake.is_set():
            time.sleep(0.001)
    background.before_call("cheat")
    assert [owner for owner, _ in background.look("cheat")] == ["cheat"]
    over.set()
    wake.set()
    thread.join()
