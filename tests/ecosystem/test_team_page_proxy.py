"""The page for a team behind a real oauth2-proxy: two users of different rights sign in at an issuer that the API
server trusts, in a real browser.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import progress
import pytest
import urllib3

from support import free_port
from support.browser import page_browser
from support.browser import programs as browser_programs
from support.browser.page_browser import PageBrowser
from support.ecosystem import oauth2_proxy, oidc_issuer
from support.ecosystem.oidc_issuer import Issuer
from support.threats import page_process, world
from support.threats.audit_log import AuditLog
from support.threats.page_process import REVISIONS, SEEN_STACKS, PageProcess
from support.threats.slots import Slots
from support.threats.world import CONFIG_MAPS, STACKS, Tenant, ThreatWorld, make_config_map, make_stack

ANNA, BEN = "anna@example.com", "ben@example.com"
SHORT = 25
"""Seconds that a token is valid: enough to sign in on a busy machine."""
pytestmark = pytest.mark.together


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TeamSite:
    """The page behind the proxy, as a browser sees it."""

    threats: ThreatWorld
    issuer: Issuer
    page: PageProcess
    browser: PageBrowser
    root: str
    """The URL of the proxy."""
    proxy_log: Path

    def sign_in(self, name: str, path: str = "/") -> None:
        """Open a page, and choose a user at the issuer."""
        self.browser.open(self.root + path)
        self.browser.click(f"#{name}")
        self.browser.find("#user")

    def pause(self) -> str:
        """Press the button, confirm, and return the text of the dialog."""
        self.browser.click("#action-pause")
        self.browser.wait_dialog()
        self.browser.click("#confirm")
        self.browser.find("#dialog .done, #dialog .problem")
        return self.browser.wait_dialog()

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """The code and text of a page, for the user who is signed in in the browser."""
        cookies = "; ".join(f"{each['name']}={each['value']}" for each in self.browser.driver.get_cookies())
        pool = urllib3.PoolManager()
        answer = pool.request(
            "GET", self.root + path, headers={"Cookie": cookies, **headers}, redirect=False, retries=False, timeout=60
        )
        return answer.status, answer.data.decode()


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with oidc_issuer.serve_issuer(ANNA, BEN) as made:
        yield made


@pytest.fixture(scope="module")
def plane(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an API server that trusts the issuer."""
    file = tmp_path_factory.mktemp("issuer") / "authentication.json"
    issuer.write_configuration(file)
    slots = Slots(is_alone=False, prefix="sign-in", options=(f"--authentication-config={file}",))
    with slots.take() as kubeconfig:
        yield kubeconfig
        # Before anybody else takes the slot: another issuer needs another plane.
        slots.close()


@pytest.fixture
def threats(plane: Path, tmp_path: Path) -> Iterator[ThreatWorld]:
    with world.open_world(plane, tmp_path) as made:
        yield made


@pytest.fixture
def proxy_options() -> tuple[str, ...]:
    """Further flags of the proxy. Tests replace them by a parameter."""
    return ()


@pytest.fixture
def site(threats: ThreatWorld, issuer: Issuer, proxy_options: tuple[str, ...], tmp_path: Path) -> Iterator[TeamSite]:
    port = free_port.find_free_port()
    root = f"http://localhost:{port}"
    try:
        programs = browser_programs.find()
    except progress.Impossible as impossible:
        pytest.fail(str(impossible))
    with contextlib.ExitStack() as stack:
        options = (f"--sign-out-path={oauth2_proxy.SIGN_OUT}",)
        page = stack.enter_context(page_process.run_page(threats, tmp_path, *options, url=root))
        log = stack.enter_context(
            oauth2_proxy.run_proxy(issuer, tmp_path, *proxy_options, port=port, upstream=page.url)
        )
        browser = stack.enter_context(page_browser.opened(programs, trusts_every_certificate=True))
        made = TeamSite(threats=threats, issuer=issuer, page=page, browser=browser, root=root, proxy_log=log)
        pool = urllib3.PoolManager()

        def is_serving() -> bool:
            with contextlib.suppress(urllib3.exceptions.HTTPError):
                return bool(pool.request("GET", f"{root}/ping", retries=False).status == 200)
            return False

        threats.wait_for(is_serving, what="oauth2-proxy serves")
        yield made


def make_stacks(threats: ThreatWorld) -> tuple[Tenant, Tenant]:
    """A namespace with a Stack `app` for each user: Anna may write hers, Ben may only look at his."""
    shops, stores = threats.tenant("shops"), threats.tenant("stores")
    shops.admit_user(ANNA, STACKS, REVISIONS, CONFIG_MAPS)
    stores.admit_user(BEN, SEEN_STACKS)
    for tenant in (shops, stores):
        threats.api.create(make_stack(tenant.namespace, "app", {"a": make_config_map("a", {"k": "v"})}))
        threats.wait_phase(tenant.namespace, "app", "CreateComplete")
    return shops, stores


def is_paused(threats: ThreatWorld, tenant: Tenant) -> bool:
    return bool((threats.api.get("Stack", tenant.namespace, "app") or {})["spec"].get("paused"))


def test_users_behind_a_proxy_see_and_do_what_rbac_allows_under_their_own_names(site: TeamSite) -> None:
    log = AuditLog(site.threats.audit_log)
    shops, stores = make_stacks(site.threats)
    shop, store = (f"/stacks/{tenant.namespace}/app" for tenant in (shops, stores))

    # The link to a Stack survives the sign-in.
    site.sign_in("anna", shop)
    site.browser.wait_text("CreateComplete")
    site.browser.find("#connection[data-state=live]")
    assert site.browser.driver.current_url == site.root + shop
    assert site.browser.find("#user").text == ANNA
    assert [site.get(path)[0] for path in (shop, store, "/", f"/?namespace={stores.namespace}")] == [200, 403, 403, 403]
    assert "paused" in site.pause()
    assert is_paused(site.threats, shops)

    site.browser.driver.refresh()
    site.browser.click("#sign-out")
    site.browser.find("#ben")
    assert site.get(shop)[0] == 302

    site.sign_in("ben", store)
    site.browser.wait_text("CreateComplete")
    assert site.browser.find("#user").text == BEN
    assert [site.get(path)[0] for path in (store, shop, f"/?namespace={shops.namespace}")] == [200, 403, 403]
    assert "forbidden" in site.pause()
    assert not is_paused(site.threats, stores)

    assert page_process.list_audited(log) == ([(ANNA, 200), (BEN, 403)], {ANNA, BEN})
    own_log = site.page.log.read_text()
    assert ANNA in own_log
    assert BEN in own_log
    assert [token for token in site.issuer.tokens if token in own_log] == []


def test_headers_of_a_browser_do_not_pass_the_proxy(site: TeamSite) -> None:
    shops, stores = make_stacks(site.threats)
    site.sign_in("anna", f"/stacks/{shops.namespace}/app")
    token = site.issuer.tokens[-1]
    site.browser.driver.delete_all_cookies()
    site.sign_in("ben", f"/stacks/{stores.namespace}/app")

    smuggled = {"Authorization": f"Bearer {token}", "X-Forwarded-User": ANNA, "X-Forwarded-Email": ANNA}
    assert site.get(f"/stacks/{shops.namespace}/app", **smuggled)[0] == 403
    code, text = site.get(f"/stacks/{stores.namespace}/app", **smuggled)

    assert (code, BEN in text, ANNA in text) == (200, True, False)


@pytest.mark.parametrize(
    ("proxy_options", "is_on_page"),
    [
        pytest.param((), True, id="the proxy still sends the token"),
        pytest.param((f"--cookie-expire={SHORT}s",), False, id="the proxy redirects to the issuer"),
    ],
)
def test_an_expired_token_is_announced_and_the_user_signs_in_again(site: TeamSite, is_on_page: bool) -> None:
    shops = site.threats.tenant("shops")
    shops.admit_user(ANNA, STACKS)
    site.issuer.lifetime = SHORT
    path = f"/?namespace={shops.namespace}"
    site.sign_in("anna", path)
    site.issuer.lifetime = 3_600
    site.browser.find("#connection[data-state=live]")
    # The browser leaves the page at once, so the announcement is kept.
    site.browser.driver.execute_script(
        "const place = document.getElementById('connection');"
        "new MutationObserver(() => { sessionStorage.said = (sessionStorage.said || '') + place.textContent + '\\n'; })"
        ".observe(place, {childList: true, characterData: true, subtree: true})"
    )

    ended = "#sign-in" if is_on_page else "#anna"
    site.threats.wait_for(lambda: site.browser.count(ended), within=4 * SHORT, what="the user is asked to sign in")
    if is_on_page:
        assert "your token: it has expired" in site.browser.text
        site.browser.click("#sign-in")
    site.browser.click("#anna")
    site.browser.find("#user")
    site.browser.open(site.root + path)
    site.browser.find("#connection[data-state=live]")

    assert "your sign-in has expired" in site.browser.driver.execute_script("return sessionStorage.said")
