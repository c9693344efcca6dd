"""Controls a real browser on the page, with the actions and views of a user. Waits for states, never for a fixed time.

Also serves a page of another origin that tries to read the page of `kubectl stack ui` and to send its forms.
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from support.browser.programs import BrowserPrograms

PATIENCE_SECONDS = 30
"""Ten times the longest time seen on a busy machine."""
TABS_AT_MOST = 60
"""Maximum presses of Tab to reach an element."""
ATTACK = """<!doctype html><title>attack</title>
<form method=post action="%(target)s/act"><input name=action value=pause><input name=action_token value="%(token)s"></form>
<script>
(async () => {
  const target = "%(target)s", outcome = {read: "nothing", stream: "nothing", frame: "nothing", sent: 0};
  const body = () => new URLSearchParams({action: "pause", action_token: "%(token)s"});
  try { outcome.read = await (await fetch(target, {credentials: "include"})).text(); } catch {}
  for (const mode of ["no-cors", "cors", "no-cors"]) {
    try { await fetch(target + "/act", {method: "POST", mode, credentials: "include", body: body()}); } catch {}
    outcome.sent += 1;
  }
  const frame = document.body.appendChild(document.createElement("iframe"));
  await new Promise((done) => { frame.onload = done; frame.src = target; });
  try { outcome.frame = frame.contentDocument.body.innerText || "nothing"; } catch {}
  await new Promise((done) => {
    const source = new EventSource(target + "/updates", {withCredentials: true});
    source.onerror = () => { source.close(); done(); };
    source.addEventListener("parts", (event) => { outcome.stream = event.data; done(); });
  });
  window.outcome = outcome;
})();
</script>"""


@dataclass(slots=True)
class PageBrowser:
    driver: webdriver.Chrome
    axe: str
    """The source code of axe-core."""

    def open(self, address: str) -> None:
        """Open an address, as typed."""
        self.driver.get(address)

    def wait(self, check: Callable[[], Any], what: str) -> Any:
        """Wait until that is true and return its value."""
        return WebDriverWait(self.driver, PATIENCE_SECONDS, poll_frequency=0.05).until(
            lambda _: check(), f"{what}; the page shows:\n{self.text}"
        )

    @property
    def text(self) -> str:
        """The text that is visible."""
        return str(self.driver.execute_script("return document.body.innerText"))

    def wait_text(self, text: str) -> None:
        """Wait until that text is visible."""
        self.wait(lambda: text in self.text, f"no {text!r}")

    def find(self, selector: str) -> WebElement:
        """Wait for the element and return it."""
        found: WebElement = self.wait(
            lambda: next(iter(self.driver.find_elements(By.CSS_SELECTOR, selector)), None), f"no {selector}"
        )
        return found

    def count(self, selector: str) -> int:
        """Current number of matching elements."""
        return len(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def find_node(self, resource: str) -> WebElement:
        return self.find(f".graph a[data-resource='{resource}']")

    def click(self, selector: str) -> None:
        """Click on an element; live parts may be replaced at that moment."""
        self.wait(lambda: self._try_click(selector), f"cannot click on {selector}")

    def _try_click(self, selector: str) -> bool:
        return bool(
            self.driver.execute_script(
                "const e = document.querySelector(arguments[0]); if (e) (e.click ? e.click() : "
                "e.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))); return !!e",
                selector,
            )
        )

    def wait_dialog(self) -> str:
        """Wait for the dialog's content; return its text."""
        self.find("#dialog[open]:not(:has([aria-busy])) h1")
        return self.find("#dialog").text

    def close_dialog(self) -> None:
        """Press Escape."""
        self.press(Keys.ESCAPE)
        self.wait(lambda: not self.count("#dialog[open]"), "the dialog stays")

    def press(self, *keys: str) -> None:
        """Press keys on the focused element, which may be replaced at that moment."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, selector: str, *, key: str = Keys.TAB) -> None:
        """Press Tab until the focus is on that element."""
        for _ in range(TABS_AT_MOST):
            if self.is_focused(selector):
                return
            self.press(key)
        raise AssertionError(f"the keyboard does not reach {selector}")

    def is_focused(self, selector: str) -> bool:
        return bool(self.driver.execute_script("return document.activeElement.matches(arguments[0])", selector))

    @contextmanager
    def dark(self) -> Iterator[None]:
        """Prefer dark colors."""
        self._set_scheme("dark")
        yield
        self._set_scheme("light")

    def _set_scheme(self, scheme: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def find_violations(self) -> list[str]:
        """The violations that axe-core finds, with the elements."""
        # Use the debugger protocol, because the page's content security policy forbids injected scripts.
        self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": self.axe})
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; axe.run(document).then(r => done(r.violations), e => done([{id: String(e), nodes: []}]))"
        )
        return [f"{each['id']}: {[node['html'][:200] for node in each['nodes']]}" for each in found]

    def read_console(self) -> list[str]:
        """The browser's console messages since the last call, except messages about responses other than 2xx."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]  # has no types
        return [each["message"] for each in entries if "Failed to load resource" not in each["message"]]


@contextmanager
def opened(programs: BrowserPrograms, *, trusts_every_certificate: bool = False) -> Iterator[PageBrowser]:
    """A browser without a window."""
    options = webdriver.ChromeOptions()
    options.accept_insecure_certs = trusts_every_certificate
    options.binary_location = programs.browser
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--window-size=1280,900",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=programs.driver))
    try:
        yield PageBrowser(driver, programs.axe.read_text())
    finally:
        driver.quit()


@contextmanager
def serve_attack(target: str, token: str) -> Iterator[str]:
    """Serve an attacker's page on another port; returns its address."""
    content = (ATTACK % {"target": target, "token": token}).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 -- the library calls it so
            """Log nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
