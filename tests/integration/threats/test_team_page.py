"""`hearth page` with two users of different rights: RBAC decides what each of them sees, and the audit log names them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.threats import page_process
from support.threats.audit_log import AuditLog
from support.threats.page_process import REVISIONS, SEEN_STACKS, PageProcess
from support.threats.world import CONFIG_MAPS, STACKS, ThreatWorld, make_config_map, make_stack


@pytest.fixture
def page(threats: ThreatWorld, tmp_path: Path) -> Iterator[PageProcess]:
    """The page on the test's API server."""
    with page_process.run_page(threats, tmp_path) as made:
        yield made


def test_each_user_sees_and_does_what_rbac_allows_under_their_own_name(threats: ThreatWorld, page: PageProcess) -> None:
    log = AuditLog(threats.audit_log)
    shops, stores = threats.tenant("shops"), threats.tenant("stores")
    anna, anna_token = page_process.make_token(threats, shops.make_account("anna", STACKS, REVISIONS, CONFIG_MAPS))
    ben, ben_token = page_process.make_token(threats, stores.make_account("ben", SEEN_STACKS))
    for tenant, name in ((shops, "shop"), (stores, "store")):
        threats.api.create(make_stack(tenant.namespace, name, {"a": make_config_map("a", {"k": "v"})}))
        threats.wait_phase(tenant.namespace, name, "CreateComplete")
    shop, store = f"/stacks/{shops.namespace}/shop", f"/stacks/{stores.namespace}/store"

    # Anna pastes her token, Ben comes through a proxy.
    signed_in = page.send("POST", "/sign-in", {"token": anna_token, "next": shop})
    assert (signed_in.status, signed_in.headers["Location"]) == (303, shop)
    as_anna = {"Cookie": signed_in.headers["Set-Cookie"].partition(";")[0]}
    as_ben = {"Authorization": f"Bearer {ben_token}"}

    own = page.get(f"/?namespace={shops.namespace}", **as_anna)
    assert (own[0], shop in own[1], anna in own[1]) == (200, True, True)
    assert page.get(shop, **as_anna)[0] == 200
    assert page.get(store, **as_ben)[0] == 200
    for headers, path in ((as_anna, store), (as_anna, f"/?namespace={stores.namespace}"), (as_anna, "/")):
        assert page.get(path, **headers)[0] == 403
    for path in (shop, f"/?namespace={shops.namespace}", "/"):
        code, text = page.get(path, **as_ben)
        assert (code, f"{shop}/" in text) == (403, False)

    assert page.pause(shop, **as_anna) == 200
    assert page.pause(store, **as_ben) == 403
    paused = [
        (threats.api.get("Stack", tenant.namespace, name) or {})["spec"].get("paused")
        for tenant, name in ((shops, "shop"), (stores, "store"))
    ]
    assert paused == [True, None]

    assert page_process.list_audited(log) == ([(anna, 200), (ben, 403)], {anna, ben})
    own_log = page.log.read_text()
    assert anna in own_log
    assert '"verb": "pause"' in own_log
    for secret in (anna_token, ben_token, as_anna["Cookie"].partition("=")[2]):
        assert secret not in own_log


def test_a_revoked_token_leads_to_the_sign_in_page(threats: ThreatWorld, page: PageProcess) -> None:
    shops = threats.tenant("shops")
    account = shops.make_account("anna", STACKS)
    _, token = page_process.make_token(threats, account)
    answer = page.send("POST", "/sign-in", {"token": token})
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    assert page.get(f"/?namespace={shops.namespace}", Cookie=cookie)[0] == 200

    threats.api.delete("ServiceAccount", *account.account.split("/"))

    # The API server remembers valid tokens for ten seconds.
    def find_refusal() -> str | None:
        code, text = page.get(f"/?namespace={shops.namespace}", Cookie=cookie)
        return text if code == 401 else None

    # A list that is kept up to date notices it first, and ends the session.
    refusal = threats.wait_for(find_refusal, what="the token is refused")
    assert "it has expired or was revoked" in refusal or "it has expired or is not valid" in refusal
    page.process.send_signal(signal.SIGTERM)
    assert page.process.wait(30) == 0
