"""A page as a reader opens it, and all that a reader should never have: errors, violations, requests elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page

# Listens before anything of the page runs.
WATCH_POLICY = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", function (event) {
  window.__violations.push(event.violatedDirective + ": " + event.blockedURI);
});
"""


class Visit:
    """A page and the troubles that were seen while it was open."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self._host = urlsplit(address).netloc
        self._seen: list[str] = []
        page.on(
            "console", lambda said: said.type in ("error", "warning") and self._seen.append(f"console: {said.text}")
        )
        page.on("pageerror", lambda error: self._seen.append(f"script: {error}"))
        page.on("dialog", lambda dialog: (self._seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", self._request)
        page.on("requestfailed", lambda request: self._seen.append(f"failed: {request.url}"))
        page.goto(address)

    def troubles(self) -> list[str]:
        violations = self.page.evaluate("window.__violations || []")
        return [*self._seen, *(f"policy: {violation}" for violation in violations)]

    def _request(self, request) -> None:
        asked = urlsplit(request.url)
        if asked.scheme not in ("data", "blob") and asked.netloc != self._host:
            self._seen.append(f"request to another host: {request.url}")


@contextmanager
def visit(
    browser: Browser, address: str, *, width: int = 1280, height: int = 900, scripts: bool = True, **how
) -> Iterator[Visit]:
    """Open `address` in a fresh profile; `how` goes to the browser's context."""
    context = browser.new_context(viewport={"width": width, "height": height}, java_script_enabled=scripts, **how)
    context.add_init_script(WATCH_POLICY)
    # Nothing outside may be reached, also where a test of the lab is at fault.
    context.route(lambda url: urlsplit(url).hostname not in (None, "", "127.0.0.1"), lambda route: route.abort())
    try:
        yield Visit(context.new_page(), address)
    finally:
        context.close()


def kinds(paths: list[str]) -> dict[str, list[str]]:
    """Pages by kind: the names in an address that differ from page to page are taken out of it."""
    found: dict[str, list[str]] = {}
    for path in paths:
        first, *rest = path.split("/")
        kind = "/".join([first, *("*" if part not in ("cases", "index.html") else part for part in rest)])
        found.setdefault(kind, []).append(path)
    return found
