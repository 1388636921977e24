"""A page as a reader opens it, and all that a reader should never have: errors, violations, requests elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, Request

# Listens before anything of the page runs.
WATCH_POLICY = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", function (event) {
  window.__violations.push(event.violatedDirective + ": " + event.blockedURI);
});
"""


class Reader:
    """One page of a browser, and the troubles that were seen with the address that it is at."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._host = ""
        self._seen: list[str] = []
        self._asked: list[Request] = []
        self._arriving = False
        page.on(
            "console", lambda said: said.type in ("error", "warning") and self._seen.append(f"console: {said.text}")
        )
        page.on("pageerror", lambda error: self._seen.append(f"script: {error}"))
        page.on("dialog", lambda dialog: (self._seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", self._request)
        page.on("requestfailed", lambda it: it in self._asked and self._seen.append(f"failed: {it.url}"))
        page.on("framenavigated", lambda _: self._arriving and self._arrive())

    def open(self, address: str) -> None:
        self._host = urlsplit(address).netloc
        self._arriving = True
        self.page.goto(address)

    def _arrive(self) -> None:
        """Begin anew: what the page before still asked for, and is broken off, is no trouble of this one."""
        self._arriving = False
        self._seen.clear()
        self._asked.clear()

    def troubles(self) -> list[str]:
        violations = self.page.evaluate("window.__violations || []")
        return [*self._seen, *(f"policy: {violation}" for violation in violations)]

    def _request(self, request: Request) -> None:
        self._asked.append(request)
        asked = urlsplit(request.url)
        if asked.scheme not in ("data", "blob") and asked.netloc != self._host:
            self._seen.append(f"request to another host: {request.url}")


@contextmanager
def reader(browser: Browser, *, width: int = 1280, height: int = 900, scripts: bool = True, **how) -> Iterator[Reader]:
    """A fresh profile, for one page after another: a profile for each costs more than most pages do.

    `how` goes to the browser's context.
    """
    context = browser.new_context(viewport={"width": width, "height": height}, java_script_enabled=scripts, **how)
    context.add_init_script(WATCH_POLICY)
    try:
        yield Reader(context.new_page())
    finally:
        context.close()


@contextmanager
def visit(browser: Browser, address: str, **how) -> Iterator[Reader]:
    """Open one address; `how` as for `reader`."""
    with reader(browser, **how) as seen:
        seen.open(address)
        yield seen


def kinds(paths: list[str]) -> dict[str, list[str]]:
    """Pages by kind: the names in an address that differ from page to page are taken out of it."""
    by_kind: dict[str, list[str]] = {}
    for path in paths:
        first, *rest = path.split("/")
        kind = "/".join([first, *("*" if part not in ("cases", "index.html") else part for part in rest)])
        by_kind.setdefault(kind, []).append(path)
    return by_kind
