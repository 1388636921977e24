"""A real Chromium and a built site, each once. Without a browser these tests are skipped, and say why."""

import functools
import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_once import made_once

from lab.evidence.source import ROOT

NAMES = ("chromium", "google-chrome", "chromium-browser")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    # Nothing outside may be reached, also where a test of the lab is at fault.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip
GET_ONE = "apt-get install chromium, or name a browser in LAB_CHROMIUM"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    sync_api = _needed("playwright.sync_api")
    _needed("axe_playwright_python.base")
    executable = _chromium()
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=[*ARGUMENTS])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; `browser` is asked for first, since there is no use in building without one."""
    from rich_site import rich_site

    return made_once(tmp_path_factory, "rich", rich_site)


@pytest.fixture(scope="session")
def served(site: Path) -> Iterator[str]:
    """The built site's address, without the last slash."""
    yield from _serve(site)


@pytest.fixture(scope="session")
def published() -> Iterator[str]:
    """The address of the site that is committed."""
    yield from _serve(ROOT / "site")


def _serve(folder: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


def _needed(module: str) -> object:
    try:
        return __import__(module, fromlist=["_"])
    except ImportError as missing:
        _without(f"{missing.name} is not installed (pip install '.[test]')")


def _chromium() -> str:
    """An executable that starts: a distribution's `chromium-browser` may be a script that only names a snap."""
    named = [os.environ["LAB_CHROMIUM"]] if os.environ.get("LAB_CHROMIUM") else list(NAMES)
    for program in filter(None, map(shutil.which, named)):
        if subprocess.run([program, "--version"], capture_output=True, timeout=60).returncode == 0:
            return program
    return _without(f"{' and '.join(named)} cannot be started ({GET_ONE})")


def _without(reason: str) -> str:
    """Skip; in CI fail, unless ./scripts/test found that no browser can be installed there."""
    why_not = os.environ.get("LAB_NO_BROWSER", "")
    if os.environ.get("CI") == "true" and not why_not:
        pytest.fail(f"in CI the tests in a browser must run, and {reason}", pytrace=False)
    pytest.skip(f"no browser: {reason}{'; ' + why_not if why_not else ''}")
