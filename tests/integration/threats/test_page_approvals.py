"""Approvals on the page in a real browser: the author of a change is refused, a viewer has no buttons, and another
approver approves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import progress
import pytest

from support import free_port
from support.browser import page_browser
from support.browser import programs as browser_programs
from support.browser.page_browser import PageBrowser
from support.threats import page_process, webhook
from support.threats.api import Api
from support.threats.audit_log import AuditLog
from support.threats.page_process import REVISIONS, SEEN_STACKS
from support.threats.world import CONFIG_MAPS, READ, STACKS, Rule, ThreatWorld, make_config_map, make_stack

SEEN_PLANS = Rule(group="hearth.dev", resources=("stackplans",), verbs=READ)
APPROVALS = Rule(group="hearth.dev", resources=("stackplans",), verbs=(*READ, "patch", "approve"))
pytestmark = pytest.mark.ecosystem


@dataclasses.dataclass(frozen=True, slots=True)
class ApprovalSite:
    """The page, and the browser of one user after another."""

    threats: ThreatWorld
    browser: PageBrowser
    root: str

    def sign_in(self, account: Api, path: str) -> None:
        """Paste a token of the account, and open a page."""
        _, token = page_process.make_token(self.threats, account)
        self.browser.driver.delete_all_cookies()
        self.browser.open(self.root + path)
        self.browser.find("#token").send_keys(token)
        self.browser.click("#sign-in")
        self.browser.find("#connection[data-state=live]")

    def approve(self, reason: str) -> str:
        """Press the button, confirm, and return the text of the dialog."""
        self.browser.click("#action-approve")
        self.browser.wait_dialog()
        self.browser.find("#field-reason").send_keys(reason)
        self.browser.click("#confirm")
        self.browser.find("#dialog .done, #dialog .problem")
        return self.browser.wait_dialog()


@pytest.fixture
def site(threats: ThreatWorld, tmp_path: Path) -> Iterator[ApprovalSite]:
    """The page under a name for which browsers need no TLS, and an operator that checks approvals."""
    try:
        programs = browser_programs.find()
    except progress.Impossible as impossible:
        pytest.fail(str(impossible))
    port = free_port.find_free_port()
    root = f"http://localhost:{port}"
    with (
        webhook.serve(threats),
        page_process.run_page(threats, tmp_path, url=root, port=port),
        page_browser.opened(programs) as browser,
    ):
        yield ApprovalSite(threats, browser, root)


def test_a_change_is_approved_by_another_user_than_its_author(site: ApprovalSite) -> None:
    threats, browser = site.threats, site.browser
    log = AuditLog(threats.audit_log)
    tenant = threats.tenant()
    anna = tenant.make_account("anna", STACKS, REVISIONS, CONFIG_MAPS, APPROVALS)
    ben = tenant.make_account("ben", SEEN_STACKS, APPROVALS)
    cara = tenant.make_account("cara", SEEN_STACKS, SEEN_PLANS)
    separate = {"required": "Always", "separateApprover": True}
    anna.create(make_stack(tenant.namespace, "shop", {"a": make_config_map()}, approval=separate))
    threats.wait_phase(tenant.namespace, "shop", "CreateStopped")

    path = check_author(site, anna, f"/stacks/{tenant.namespace}/shop")
    site.sign_in(cara, path)
    browser.wait_text("You cannot decide about this plan")
    assert browser.find_violations() == []
    assert browser.count("#action-approve") == 0
    site.sign_in(ben, path)
    said = site.approve("after lunch")
    assert ("approved by" in said, "after lunch" in said) == (True, True)
    browser.close_dialog()

    # The page behind the dialog follows the plan.
    browser.wait_text("The change is complete.")
    assert browser.count("#action-approve") == 0
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    browser.open(f"{site.root}/plans?namespace={tenant.namespace}")
    browser.wait_text("No change waits for an approval")
    users = [f"system:serviceaccount:{each.account.replace('/', ':')}" for each in (anna, ben)]
    writes, _ = page_process.list_audited(log)
    assert [(user, code < 300) for user, code in writes] == [(users[0], False), (users[1], True)]


def check_author(site: ApprovalSite, author: Api, stack_path: str) -> str:
    """The author finds the plan on the page of the Stack, and is refused; return the path of the plan."""
    site.sign_in(author, stack_path)
    site.browser.wait_text("Create 1")
    site.browser.click("#to-plan")
    site.browser.find("#action-approve")
    refused = site.approve("my own change")
    assert ("Your decision was not stored" in refused, "wrote the change" in refused) == (True, True), refused
    return str(site.browser.driver.current_url).removeprefix(site.root)
