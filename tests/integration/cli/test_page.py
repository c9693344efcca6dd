"""The page of `kubectl stack ui` in a real browser, on a real API server.

Most Stacks here have no operator: the page shows the API server's objects, and the tests write them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import progress
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from support.browser import page_browser, programs, shown_stacks, terminal_pictures
from support.browser.page_browser import PageBrowser
from support.browser.shown_stacks import HOSTILE, ShownStacks
from support.real import real_user, stack_command
from support.real.operator_fleet import Crew
from support.real.raw_api import RawApi
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories import stack_manifests
from support.stories.world import Address

SCREENSHOTS = "HEARTH_SCREENSHOTS"
"""The variable with the folder for the documentation's screenshots: `make screenshots`."""
pytestmark = [pytest.mark.together, pytest.mark.ecosystem]


@dataclass(frozen=True, slots=True)
class Site:
    """The page, the browser, and the objects that it shows."""

    browser: PageBrowser
    stacks: ShownStacks
    root: str
    """The URL prefix of the page."""
    plan: str
    """The path of a plan of a Stack that waits for an approval."""

    def open_stack(self, name: str = "shop", query: str = "") -> None:
        """Open the page of a Stack, and wait until it is live."""
        self.browser.open(f"{self.root}stacks/{self.stacks.namespace}/{name}{query}")
        self.browser.find("#connection[data-state=live]")


@pytest.fixture(scope="module")
def browser() -> Iterator[PageBrowser]:
    """One browser for all tests of this module."""
    try:
        found = programs.find()
    except progress.Impossible as impossible:
        pytest.fail(str(impossible))
    with page_browser.opened(found) as made:
        yield made


@pytest.fixture(scope="module")
def site(kubeconfig: Path, api_client: Any, browser: PageBrowser) -> Iterator[Site]:
    """The opened page of a namespace with Stacks in many states."""
    api = RawApi(api_client)
    made = api.send("POST", "/api/v1/namespaces", body={"metadata": {"generateName": "page-"}})
    namespace = made.body["metadata"]["name"]
    asyncio.run(install(kubeconfig, namespace))
    stacks = ShownStacks(api, namespace)
    stacks.create_shop()
    ui = stack_command.start_ui(kubeconfig, "-n", namespace)
    browser.open(ui.address)
    waiting = stacks.create("billing", {"template": {"resources": {"web": {"manifest": shown_stacks.CONFIG}}}})
    plan = stacks.create_plan(waiting["metadata"]["name"])
    yield Site(browser, stacks, browser.driver.current_url, plan)
    ui.kill()


async def install(kubeconfig: Path, namespace: str) -> None:
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with Connection(source) as connection:
        await real_user.install_all(RealUser(connection, namespace))


def test_the_list_leads_to_the_graph(site: Site) -> None:
    site.browser.open(site.root)
    site.browser.wait_text("Stacks in page-")
    assert "token" not in site.root

    site.browser.click("a[href$='/shop']")

    site.browser.wait_text("UpdateStopped")
    for resource, state in (("settings", "ready"), ("cache", "failed"), ("web", "stopped"), ("front", "waiting")):
        assert state in (site.browser.find_node(resource).get_attribute("class") or "")
    assert site.browser.count(".graph .replacement") == 1
    assert site.browser.count(".graph .breakpoint") == 2


def test_changes_appear_without_a_reload(site: Site) -> None:
    stack = site.stacks.create_shop("changing-")
    site.open_stack(stack)
    site.browser.find("#action-check")
    site.browser.driver.execute_script("document.getElementById('action-check').focus(); window.isSame = true")

    site.stacks.write_status(stack, phase="UpdateFailed", problems=[])
    site.browser.wait_text("UpdateFailed")
    site.browser.find_node("cache")
    assert site.browser.driver.execute_script("return window.isSame")
    assert site.browser.is_focused("#action-check")
    site.stacks.write_shop_status(stack)
    site.browser.wait_text("UpdateStopped")


def test_a_filter_stays_while_the_list_changes(site: Site) -> None:
    stack = site.stacks.create_shop("filtered-")
    site.browser.open(site.root)
    site.browser.find("#connection[data-state=live]")
    site.browser.find("#filter-text").send_keys(f"{stack} stopped")

    def count() -> int:
        return site.browser.count(".stacks tbody tr:not([hidden])")

    site.browser.wait(lambda: count() == 1, "one Stack is left")
    site.stacks.write_status(stack, phase="UpdateFailed", problems=[])
    site.browser.wait(lambda: count() == 0, "it is not stopped any more")
    site.stacks.write_shop_status(stack)
    site.browser.wait(lambda: count() == 1, "it is stopped again")


def test_the_list_gains_and_loses_rows_without_a_reload(site: Site) -> None:
    site.browser.open(site.root)
    site.browser.find("#connection[data-state=live]")
    site.browser.driver.execute_script("window.isSame = true")

    stack = site.stacks.create_shop("coming-")
    site.browser.wait(lambda: site.browser.count(f"[id='row-stacks/{site.stacks.namespace}/{stack}']") == 1, "it came")
    site.stacks.send("DELETE", f"{site.stacks.path('stacks')}/{stack}")
    site.browser.wait(lambda: site.browser.count(f"[id='row-stacks/{site.stacks.namespace}/{stack}']") == 0, "it left")

    assert site.browser.driver.execute_script("return window.isSame")
    assert site.browser.count("#no-stacks[hidden]") == 1


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_wider_than_the_window(site: Site, width: int) -> None:
    driver = site.browser.driver
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 800},
    )
    try:
        for path in ("", site.plan, f"stacks/{site.stacks.namespace}/billing", f"stacks/{site.stacks.namespace}/shop"):
            address = f"{site.root}{path}"
            site.browser.open(address)
            site.browser.find("#connection[data-state=live]")
            assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth"), address
        size = driver.execute_script(
            "const text = document.querySelector('.graph text.detail');"
            "return text.getBoundingClientRect().height / text.getBBox().height * parseFloat(getComputedStyle(text).fontSize)"
        )
        assert size >= 12
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_what_failed_is_in_view_at_first(site: Site) -> None:
    driver = site.browser.driver
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        site.open_stack()
        script = """
            const [outer, node] = ['.picture', '.picture .failed'].map((each) => document.querySelector(each).getBoundingClientRect());
            return node.left >= outer.left && node.right <= outer.right;
        """
        site.browser.wait(lambda: driver.execute_script(script), "the failed node is in view")
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_picture_is_enlarged_and_fitted(site: Site) -> None:
    site.open_stack()

    def width() -> float:
        return float(site.browser.find(".picture svg").size["width"])

    whole = width()
    site.browser.click("[data-zoom=in]")
    site.browser.wait(lambda: width() > whole, "it is larger")
    site.browser.click("[data-zoom=fit]")
    room = site.browser.find(".picture").size["width"]
    site.browser.wait(lambda: width() <= room, "it fits")


def test_what_does_not_apply_says_why(site: Site) -> None:
    site.open_stack()
    button = site.browser.find("#action-cleanup, #action-retry, #action-rollback")
    for each in site.browser.driver.find_elements(By.CSS_SELECTOR, "[aria-disabled=true]"):
        assert each.get_attribute("title")
    assert button.is_displayed()


def test_a_click_shows_everything_about_a_resource(site: Site) -> None:
    site.open_stack()
    site.browser.click("#to-why")
    assert "exceeded quota" in site.browser.wait_dialog()
    site.browser.close_dialog()
    site.browser.click(".graph a[data-resource='cache']")
    shown = site.browser.wait_dialog()
    assert "exceeded quota" in shown
    assert "kubectl" in shown
    site.browser.close_dialog()

    site.browser.click(".graph a[data-resource='password']")
    site.browser.wait_dialog()
    for summary in site.browser.driver.find_elements(By.CSS_SELECTOR, "#dialog summary"):
        summary.click()
    shown = site.browser.find("#dialog").text
    assert "(sensitive)" in shown
    assert "kind: Secret" in shown
    assert "geheim" not in site.browser.driver.page_source
    assert "Z2VoZWlt" not in site.browser.driver.page_source
    site.browser.close_dialog()


EXPECTED = {
    "check": ("annotations", "hearth.dev/check"),
    "retry": ("annotations", "hearth.dev/retry"),
    "continue": ("annotations", "hearth.dev/continue"),
    "cleanup": ("annotations", "hearth.dev/cleanup"),
    "pause": ("spec", "paused"),
    "unpause": ("spec", "paused"),
    "suspend": ("spec", "suspended"),
    "resume": ("spec", "suspended"),
    "rollback": ("spec", "rollback"),
    "snapshot": None,
    "restore": None,
}
"""The write of each button."""


def test_every_button_writes_what_its_verb_writes(site: Site) -> None:
    stack = site.stacks.create_shop("buttons-")
    site.open_stack(stack)
    seen = set()
    for name, place in EXPECTED.items():
        site.browser.click(f"#action-{name}")
        site.browser.wait_dialog()
        before = site.stacks.read(stack)
        if site.browser.count("#cancel"):
            site.browser.click("#cancel")
            site.browser.wait(lambda: not site.browser.count("#dialog[open]"), "the dialog stays")
            assert site.stacks.read(stack) == before
            site.browser.click(f"#action-{name}")
            site.browser.wait_dialog()
            site.browser.click("#confirm")
            site.browser.find("#dialog .done, #dialog .problem")
            seen.add(name)
        site.browser.click("#close")
        site.browser.wait(lambda: not site.browser.count("#dialog[open]"), "the dialog stays")
        if place is not None and name in seen:
            assert site.stacks.find(before, *place) != site.stacks.find(site.stacks.read(stack), *place), name
    assert seen >= set(EXPECTED) - {"restore"}
    assert stack in {each["spec"]["stackName"] for each in site.stacks.list_all("stacksnapshots")}


def test_a_click_right_after_a_dialog_was_closed_opens_the_next_one(site: Site) -> None:
    site.open_stack()
    site.browser.click("#action-check")
    site.browser.wait_dialog()
    site.browser.driver.execute_script(
        "document.querySelector('#cancel').click(); document.querySelector('#action-pause').click()"
    )
    site.browser.wait(lambda: "Pause" in site.browser.wait_dialog(), "no dialog that asks for a confirmation")


def test_a_resource_is_marked_with_a_reason(site: Site) -> None:
    stack = site.stacks.create_shop("marked-")
    site.open_stack(stack)
    site.browser.click(".graph a[data-resource='settings']")
    site.browser.wait_dialog()
    site.browser.click("#dialog button[value=mark]")
    site.browser.find("#field-reason")
    site.browser.press(Keys.ENTER)
    assert site.stacks.list_marks(stack) == []
    site.browser.press("answers 500", Keys.ENTER)
    site.browser.find("#dialog .done")
    (mark,) = site.stacks.list_marks(stack)
    site.browser.close_dialog()

    assert (mark["spec"]["resource"], mark["spec"]["reason"]) == ("settings", "answers 500")


def test_the_keyboard_is_enough(site: Site) -> None:
    site.open_stack()
    site.browser.tab_to(".graph a[data-resource='web']")
    site.browser.press(Keys.ENTER)
    assert "breakpoint" in site.browser.wait_dialog()
    site.browser.close_dialog()
    assert site.browser.is_focused(".graph a[data-resource='web']")

    before = site.stacks.find(site.stacks.read("shop"), "annotations", "hearth.dev/check")
    site.browser.driver.execute_script("document.activeElement.blur()")
    site.browser.tab_to("#action-check")
    site.browser.press(Keys.ENTER)
    site.browser.wait_dialog()
    site.browser.tab_to("#confirm")
    site.browser.press(Keys.ENTER)
    site.browser.find("#dialog .done")
    assert site.stacks.find(site.stacks.read("shop"), "annotations", "hearth.dev/check") != before
    site.browser.press(Keys.ENTER)
    site.browser.wait(lambda: not site.browser.count("#dialog[open]"), "the dialog stays")
    assert site.browser.is_focused("#action-check")


def test_a_reload_needs_no_token(site: Site) -> None:
    site.open_stack()
    site.browser.driver.refresh()
    site.browser.wait_text("settings")
    site.browser.find("#connection[data-state=live]")


def test_hostile_texts_are_only_texts(site: Site) -> None:
    stack = site.stacks.create_hostile()
    site.browser.read_console()
    site.open_stack(stack)
    site.browser.wait_text(HOSTILE)
    site.browser.click(".graph a[data-resource='web']")
    site.browser.wait_dialog()
    for summary in site.browser.driver.find_elements(By.CSS_SELECTOR, "#dialog summary"):
        summary.click()
    assert HOSTILE.replace("'", "''") in site.browser.find("#dialog pre").text  # as YAML quotes it
    site.browser.open(site.root)
    site.browser.wait_text(HOSTILE[:40])
    site.browser.open(f"{site.root}{site.stacks.create_plan(stack, HOSTILE)}")
    site.browser.wait_text(f"Why: {HOSTILE}")
    site.browser.click("#action-approve")
    site.browser.wait_dialog()

    assert site.browser.driver.execute_script("return window.isHacked") is None
    assert site.browser.read_console() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(site: Site, scheme: str) -> None:
    with site.browser.dark() if scheme == "dark" else contextlib.nullcontext():
        site.open_stack()
        assert site.browser.find_violations() == []
        site.browser.click(".graph a[data-resource='cache']")
        site.browser.wait_dialog()
        assert site.browser.find_violations() == []
        site.browser.close_dialog()
        site.browser.click("#action-rollback")
        site.browser.wait_dialog()
        assert site.browser.find_violations() == []
        site.browser.close_dialog()
        for path, text in (("", "shop"), ("plans", "billing"), (site.plan, "Delete: 1 object")):
            site.browser.open(f"{site.root}{path}")
            site.browser.wait_text(text)
            assert site.browser.find_violations() == []


def test_two_thousand_resources_are_folded(site: Site) -> None:
    stack = site.stacks.create_large(2000)
    site.open_stack(stack)
    site.browser.find(".graph a.folded")
    assert site.browser.count(".graph .node") < 100

    site.stacks.write_status(stack, problems=[shown_stacks.make_problem("r777", "Invalid", "too large")])
    site.browser.find_node("r777")
    before = site.browser.count(".graph .node")
    site.browser.click(".graph a.folded")
    site.browser.find("#fold-all")
    assert site.browser.count(".graph .node") > before


def test_another_origin_can_neither_act_nor_read(site: Site) -> None:
    site.open_stack()
    site.browser.click("#action-pause")
    site.browser.wait_dialog()
    token = site.browser.find("input[name=action_token]").get_attribute("value")
    before = site.stacks.read("shop")
    with page_browser.serve_attack(f"{site.root}stacks/{site.stacks.namespace}/shop", str(token)) as address:
        for host in ("127.0.0.1", "localhost"):
            site.browser.open(address.replace("127.0.0.1", host))
            read = site.browser.wait(lambda: site.browser.driver.execute_script("return window.outcome"), "no outcome")
            assert read == {"read": "nothing", "stream": "nothing", "frame": "nothing", "sent": 3}
            assert site.browser.driver.get_cookies() == []
        site.browser.driver.execute_script("document.forms[0].submit()")
        site.browser.wait_text("This did not work")
    assert site.stacks.read("shop") == before


async def test_an_operator_at_work_is_seen_live(site: Site, workers: Crew, user: RealUser) -> None:
    await workers.hire()
    config = {"apiVersion": "v1", "kind": "ConfigMap"}
    resources = {"first": {"manifest": config}, "second": {"dependsOn": ["first"], "manifest": config}}
    address = f"{site.root}stacks/{user.namespace}/live"
    await asyncio.to_thread(site.browser.open, address)
    await asyncio.to_thread(site.browser.wait_text, "does not exist")
    await user.create(
        stack_manifests.make_stack({"template": {"resources": resources}}, name="live", namespace=user.namespace)
    )
    await asyncio.to_thread(site.browser.wait_text, "CreateComplete")
    await asyncio.to_thread(site.browser.find, ".graph a.ready[data-resource='second']")


async def test_a_rollback_shows_what_it_changes_before_it_is_confirmed(
    site: Site, workers: Crew, user: RealUser
) -> None:
    await workers.hire()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "first"}}
    stack = stack_manifests.make_stack(
        {"template": {"resources": {"web": {"manifest": config}}}}, name="back", namespace=user.namespace
    )
    await user.create(stack)
    await asyncio.to_thread(site.browser.open, f"{site.root}stacks/{user.namespace}/back")
    await asyncio.to_thread(site.browser.wait_text, "CreateComplete")
    address = stack_manifests.address_in(user.namespace, "back")
    await user.patch(address, {"spec": {"template": {"resources": {"web": {"manifest": {"data": {"a": "second"}}}}}}})
    await asyncio.to_thread(site.browser.wait_text, "UpdateComplete")

    await asyncio.to_thread(site.browser.click, "#action-rollback")
    await asyncio.to_thread(site.browser.find, "#preview pre")
    shown = await asyncio.to_thread(site.browser.wait_dialog)

    assert "first" in shown
    assert "second" in shown
    assert "made" in shown


async def test_the_wanted_object_stands_beside_the_live_one(site: Site, workers: Crew, user: RealUser) -> None:
    await workers.hire()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "wanted", "b": "same"}}
    await user.create(
        stack_manifests.make_stack(
            {"template": {"resources": {"web": {"manifest": config}}}}, name="beside", namespace=user.namespace
        )
    )
    await asyncio.to_thread(site.browser.open, f"{site.root}stacks/{user.namespace}/beside")
    await asyncio.to_thread(site.browser.wait_text, "CreateComplete")
    stack = stack_manifests.address_in(user.namespace, "beside")
    await user.patch(stack, {"spec": {"paused": True}})
    await asyncio.to_thread(site.browser.wait_text, "paused")
    live = Address(api_version="v1", kind="ConfigMap", namespace=user.namespace, name="beside-web")
    await user.patch(live, {"data": {"a": "taken"}})

    await asyncio.to_thread(site.browser.click, ".graph a[data-resource='web']")
    await asyncio.to_thread(site.browser.wait_dialog)
    await asyncio.to_thread(site.browser.click, "#dialog a[href*='/compare']")
    differing = await asyncio.to_thread(site.browser.find, "#dialog tr.differs")
    assert [each.text for each in differing.find_elements(By.CSS_SELECTOR, "td")] == ["wanted", "taken"]
    shown = await asyncio.to_thread(site.browser.wait_dialog)
    assert "1 of 2 fields differ" in shown
    assert "data.b same same" in " ".join(shown.split())
    await asyncio.to_thread(site.browser.click, "#dialog a[href*='/resource']")
    await asyncio.to_thread(site.browser.find, "#dialog a[href*='/compare']")
    await asyncio.to_thread(site.browser.close_dialog)


async def test_a_nested_stack_opens_in_place(site: Site, workers: Crew, user: RealUser) -> None:
    await workers.hire()
    config = {"apiVersion": "v1", "kind": "ConfigMap"}
    inner = {"template": {"resources": {"leaf": {"manifest": {**config, "data": {"a": "deep"}}}}}}
    nested = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "spec": inner}
    resources = {"inner": {"manifest": nested}, "beside": {"dependsOn": ["inner"], "manifest": config}}
    await user.create(
        stack_manifests.make_stack({"template": {"resources": resources}}, name="outer", namespace=user.namespace)
    )
    await asyncio.to_thread(site.browser.open, f"{site.root}stacks/{user.namespace}/outer")
    await asyncio.to_thread(site.browser.wait_text, "CreateComplete")
    await asyncio.to_thread(site.browser.click, ".graph a[data-resource='inner']")
    await asyncio.to_thread(site.browser.find, "#dialog .graph a.ready[data-resource='leaf']")
    await asyncio.to_thread(site.browser.click, "#dialog .graph a[data-resource='leaf']")
    # The picture of the nested Stack also contains the name of that object.
    await asyncio.to_thread(
        site.browser.wait, lambda: "ready configmap/outer-inner-leaf" in site.browser.text, "the leaf"
    )
    assert site.browser.driver.current_url.endswith("/outer")
    await asyncio.to_thread(site.browser.close_dialog)


def test_what_was_asked_for_before_the_dialog_was_closed_opens_it_no_more(site: Site) -> None:
    site.open_stack()
    site.browser.click(".graph a[data-resource='settings']")
    site.browser.wait_dialog()
    script = (
        "const link = document.querySelector(\".graph a[data-resource='web']\");"
        "link.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}));"
        "document.getElementById('dialog').close(); return link.href.baseVal"
    )
    path = site.browser.driver.execute_script(script)
    read = "return performance.getEntriesByType('resource').some(each => each.name.endsWith(arguments[0]))"
    site.browser.wait(lambda: site.browser.driver.execute_script(read, path), "the details are not read")

    assert not site.browser.count("#dialog[open]")
    site.browser.click(".graph a")
    assert site.browser.wait_dialog()


def test_the_file_has_the_picture_of_the_page(site: Site, kubeconfig: Path, tmp_path: Path) -> None:
    find_places = (
        "return Array.from(document.querySelectorAll('.node'), each => "
        "each.textContent + each.querySelector('.outline').getAttribute('d'))"
    )
    site.open_stack()
    shown = site.browser.driver.execute_script(find_places)
    command = StackCommand(kubeconfig=kubeconfig, namespace=site.stacks.namespace)
    file = tmp_path / "shop.svg"
    file.write_text(command.run_now("graph", "shop", "-o", "svg").stdout)
    site.browser.open(file.as_uri())

    assert len(shown) == 9
    assert site.browser.driver.execute_script(find_places) == shown


def test_the_picture_for_the_documentation(site: Site, tmp_path: Path) -> None:
    site.open_stack()
    site.browser.find_node("front")
    folder = Path(os.environ.get(SCREENSHOTS, tmp_path))
    site.browser.find("body").screenshot(str(folder / "page.png"))
    site.browser.open(f"{site.root}{site.plan}")
    site.browser.find("#action-approve")
    site.browser.find("body").screenshot(str(folder / "plan.png"))

    for name in ("page.png", "plan.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("verb", ["tree", "why"])
def test_the_picture_of_a_terminal(site: Site, kubeconfig: Path, tmp_path: Path, verb: str) -> None:
    shown = ("--kubeconfig", str(kubeconfig), "-n", site.stacks.namespace, verb, "shop")
    text = terminal_pictures.record([*stack_command.find_program(), *shown], width=110, environment=os.environ)
    picture = terminal_pictures.draw(
        text.replace(site.stacks.namespace, "prod"), title=f"kubectl stack {verb} shop", width=110
    )
    (Path(os.environ.get(SCREENSHOTS, tmp_path)) / f"{verb}.svg").write_text(picture)

    assert "cache" in picture
    assert "\x1b" not in picture
    assert re.findall(r"https?://[^\"' )]*", picture) == ["http://www.w3.org/2000/svg"]
    assert len(set(re.findall(r"fill: (#[0-9a-f]{6})", picture))) > 2


def test_a_lost_connection_is_said(site: Site, kubeconfig: Path) -> None:
    ui = stack_command.start_ui(kubeconfig, "-n", site.stacks.namespace)
    site.browser.open(ui.address)
    site.browser.click("a[href$='/shop']")
    site.browser.find("#action-check")
    site.browser.find("#connection[data-state=live]")
    code = ui.stop()
    site.browser.find("#connection[data-state=lost]")
    site.browser.wait_text("is `kubectl stack ui` still running?")
    site.browser.click("#action-check")
    site.browser.wait_text("The server does not answer")

    assert code == 130
