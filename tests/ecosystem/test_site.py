"""The documentation as a site, opened from a folder in a real browser."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import repository
from support.browser import page_browser, programs
from support.browser.page_browser import PageBrowser

pytestmark = pytest.mark.together
COPIED = """
const texts = [];
for (const code of document.querySelectorAll("pre > code")) {
  code.setAttribute("data-md-copying", "");
  texts.push(code.innerText);
  code.removeAttribute("data-md-copying");
}
return texts;
"""
"""The text that each block's copy button copies: it sets this attribute while it reads the text."""
TYPED = """
const field = document.querySelector("input.md-search__input");
field.focus();
field.value = "rollback";
field.dispatchEvent(new Event("keyup", {bubbles: true}));
"""
"""A word in the search field."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=repository.ROOT, check=True, capture_output=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[PageBrowser]:
    with page_browser.opened(programs.find()) as made:
        yield made


@pytest.mark.parametrize("page", ["tutorial", "write-a-stack", "kubectl-stack", "rollback"])
def test_the_copy_button_copies_commands_alone(site: Path, browser: PageBrowser, page: str) -> None:
    browser.open((site / f"{page}.html").as_uri())
    texts = browser.driver.execute_script(COPIED)

    commands = [text for text in texts if text.lstrip().startswith(("kubectl", "make", "hearth", "export"))]
    assert len(commands) >= 3
    lines = [line for text in texts for line in text.splitlines()]
    assert [line for line in lines if line.startswith("$ ")] == []
    assert [line for line in lines if line.startswith(("stack.hearth.dev/", "├─", "└─"))] == []


def test_the_search_works_from_a_folder(site: Path, browser: PageBrowser) -> None:
    browser.driver.set_window_size(1400, 900)
    browser.open((site / "index.html").as_uri())
    browser.find("input.md-search__input")
    browser.driver.execute_script(TYPED)
    browser.wait(lambda: browser.count(".md-search-result__item") > 0, "something is found")

    first = browser.find(".md-search-result__item a").get_attribute("href") or ""
    assert "/decisions/" not in first


@pytest.mark.parametrize("width", [390, 1400])
def test_no_page_is_wider_than_the_window(site: Path, browser: PageBrowser, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 800}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        for page in ("index", "kubectl-stack", "reference/api", "language"):
            browser.open((site / f"{page}.html").as_uri())
            wide = browser.driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, page
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
