"""Plans on the page: what they show, who gets buttons, and what the buttons write."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hearth.model import approvals, names
from hearth.model.approvals import Approval, Decision
from hearth.model.child import Object
from hearth.plan.target import change_plans
from support.server import api_errors
from support.units import stack_page, team_page
from support.units.blueprints import HASHER
from support.units.scripted_api.scripted_connection import Sent
from support.units.stack_page import HOSTILE, SHOP, Reply, Visitor
from support.units.team_page import ANNA, Cluster

PLANS = "/apis/hearth.dev/v1alpha1/namespaces/prod/stackplans"
PLAN = f"{PLANS}/shop-3f9c1a2e"
PAGE = "stackplans/prod/shop-3f9c1a2e"
REVIEW = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
REORDERING = f"{HOSTILE}\u202e"
"""Hostile text that also reverses the text after it."""
DIGEST = "3f9c1a2e" + "0" * 56
DEPLOYMENT = {"group": "apps", "kind": "Deployment", "namespace": "prod", "name": "web"}
STEPS: list[Object] = [
    {"action": "update", "resource": "web", "object": DEPLOYMENT, "fields": ["spec.replicas"], "undo": "reversible"},
    {"action": "delete", "resource": "data", "reason": "it is not in the template", "undo": "one-way", "risky": ["it holds data"]},
    {"action": "create", "resource": "db", "unknownFields": ["metadata.name"], "uncertain": True},
    {"action": REORDERING, "resource": REORDERING, "object": {**DEPLOYMENT, "name": REORDERING}, "fields": [REORDERING] * 9, "risky": [REORDERING]},
    {"action": "update", "resource": "x", "reason": REORDERING, "fields": [REORDERING], "unknownFields": [REORDERING]},
]  # fmt: skip


def make_plan(phase: str = "Pending", *, name: str = "shop-3f9c1a2e", **fields: Any) -> Object:
    spec: Object = {"stackRef": {"kind": "Stack", "name": "shop", "uid": "u-1"}, "digest": DIGEST, "steps": STEPS}
    spec |= {
        "undo": "one-way",
        "notes": [REORDERING],
        "unknown": [REORDERING],
        "authors": [REORDERING],
        "separateApprover": True,
    }
    metadata = {"name": name, "namespace": "prod", "uid": "p-1", "creationTimestamp": "2026-11-30T08:00:00Z"}
    status = {"phase": phase, "expiresAt": "2026-12-01T08:30:00Z"}
    return {"metadata": metadata, "spec": spec | fields, "status": status}


def stamp(plan: Object, decision: Decision, *, reason: str = "") -> Object:
    """The plan after the webhook stamped a decision."""
    identity = approvals.ApprovalSubject(namespace="prod", name=plan["metadata"]["name"], uid="p-1", digest=DIGEST)
    approval = Approval(decision=decision, user="bob", time="2026-11-30T09:00:00Z", reason=reason)
    text = approvals.sign_approval(approval, identity, signer=HASHER)
    return {**plan, "metadata": {**plan["metadata"], "annotations": {names.ANNOTATION_APPROVAL: text}}}


def allow(*verbs: str) -> Callable[[Sent], Object]:
    """The answers of an API server about a user with these verbs."""

    def answer(sent: Sent) -> Object:
        assert sent.body is not None
        return {"status": {"allowed": sent.body["spec"]["resourceAttributes"]["verb"] in verbs}}

    return answer


def make_script(plan: Object | None = None, *verbs: str) -> dict[str, Any]:
    plan = plan or make_plan()
    return {f"GET {PLAN}": plan, f"GET {PLANS}": {"items": [plan]}, REVIEW: allow(*verbs)}


def make_waiting_stack() -> Object:
    return stack_page.make_stack(heldChange={"reason": "WaitingForApproval", "generation": 1})


@pytest.fixture
async def visitor() -> AsyncIterator[Visitor]:
    """A visitor who may decide about a plan of a Stack that waits."""
    async with stack_page.visit(make_waiting_stack()) as made:
        made.api.script |= make_script(None, "patch", "approve")
        await made.enter()
        yield made


async def decide(visitor: Visitor, **form: str) -> Reply:
    """Confirm a decision."""
    token = await visitor.find_action_token()
    headers = {"Cookie": visitor.cookie, "Origin": visitor.origin}
    stated = {"action": "approve", "digest": DIGEST, "action_token": token, **form}
    return await visitor.send("POST", f"{visitor.root}{PAGE}/act", stated, **headers)


def list_patches(visitor: Visitor) -> list[Object | None]:
    return [sent.body for sent in visitor.api.sent if str(sent) == f"PATCH {PLAN}"]


async def test_a_plan_shows_its_steps_with_the_most_dangerous_ones_first(visitor: Visitor) -> None:
    text = (await visitor.get(PAGE)).text

    places = [
        text.index(each) for each in ("Delete: 1 object", "Change: 2 objects", "Create: 1 object", "Unknown action")
    ]
    assert places == sorted(places)
    for shown in (
        "Delete 1, change 2, create 1, unknown action 1; 2 risky steps",
        "A rollback cannot undo all of it.",
        "until 2026-12-01 08:30 UTC",
        "Why: it is not in the template",
        "Risky: it holds data",
        "<code>spec.replicas</code>",
        "Values known only at run time: <code>metadata.name</code>",
        "Changed fields: 9",
        DIGEST,
    ):
        assert shown in text


@pytest.mark.parametrize("path", ["plans", PAGE, f"{PAGE}/confirm?action=approve", "stacks/prod/shop"])
async def test_no_text_of_a_plan_is_ever_markup(visitor: Visitor, path: str) -> None:
    reply = await visitor.get(path)

    assert reply.status == 200, reply.text
    assert "<img" not in reply.text
    assert reply.text.count("<script") == 1
    assert ">49<" not in reply.text
    assert "\u202e" not in reply.text


@pytest.mark.parametrize(
    ("verbs", "has_buttons"),
    [
        pytest.param(("patch", "approve"), True, id="both rights"),
        pytest.param(("patch",), False, id="may not approve"),
        pytest.param(("approve",), False, id="may not patch"),
    ],
)
async def test_only_users_with_both_rights_get_buttons(
    visitor: Visitor, verbs: tuple[str, ...], *, has_buttons: bool
) -> None:
    visitor.api.script[REVIEW] = allow(*verbs)

    text = (await visitor.get(PAGE)).text

    assert ("action-approve" in text, "action-reject" in text) == (has_buttons, has_buttons)
    assert ("You cannot decide about this plan" in text) is not has_buttons


@pytest.mark.parametrize(
    ("plan", "shown", "buttons"),
    [
        pytest.param(make_plan("Approved"), "The change starts", ["reject"], id="approved"),
        pytest.param(stamp(make_plan(), Decision.APPROVED, reason="lunch"), "approved by bob at 2026-11-30T09:00:00Z: lunch", ["reject"], id="just approved"),
        pytest.param(stamp(make_plan(), Decision.REJECTED), "rejected by bob", [], id="just rejected"),
        pytest.param(make_plan("Superseded"), "does not count any more", [], id="superseded"),
        pytest.param(make_plan("Expired"), "choose Retry", [], id="expired"),
        pytest.param(make_plan(authors=[]), "so no user can approve it", ["approve", "reject"], id="unknown authors"),
    ],
)  # fmt: skip
async def test_a_plan_says_its_state_and_offers_what_is_possible(
    visitor: Visitor, plan: Object, shown: str, buttons: list[str]
) -> None:
    visitor.api.script |= make_script(plan, "patch", "approve")

    text = (await visitor.get(PAGE)).text

    assert shown in text
    assert [each for each in ("approve", "reject") if f"action-{each}" in text] == buttons


async def test_a_confirmed_decision_is_the_write_of_the_command(visitor: Visitor) -> None:
    visitor.api.script[f"PATCH {PLAN}"] = stamp(make_plan(), Decision.APPROVED, reason="after lunch")

    asked = await visitor.get(f"{PAGE}/confirm?action=approve&digest={DIGEST}")
    reply = await decide(visitor, reason="after lunch")

    assert f'name="digest" value="{DIGEST}"' in asked.text
    assert (reply.status, "approved by bob at 2026-11-30T09:00:00Z: after lunch" in reply.text) == (200, True)
    annotations = {names.REQUEST_APPROVE: f"{DIGEST} after lunch"}
    assert list_patches(visitor) == [{"metadata": {"uid": "p-1", "annotations": annotations}}]


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        pytest.param(
            api_errors.refuse(403, "Forbidden", f"you wrote the change and cannot approve it {HOSTILE}"),
            403,
            "Your decision was not stored: you wrote the change and cannot approve it",
            id="refused by the webhook",
        ),
        pytest.param(make_plan(), 409, "the decision does not count", id="no webhook"),
    ],
)
async def test_a_refused_decision_says_why(visitor: Visitor, answer: Any, status: int, said: str) -> None:
    visitor.api.script[f"PATCH {PLAN}"] = answer

    reply = await decide(visitor)

    assert (reply.status, said in html.unescape(reply.text)) == (status, True)
    assert "<img" not in reply.text


async def test_a_plan_that_was_made_again_is_not_approved_from_the_old_page(visitor: Visitor) -> None:
    shown = (await visitor.get(PAGE)).text
    visitor.api.script |= make_script(make_plan(digest="1" * 64), "patch", "approve")

    (digest,) = set(re.findall(r'name="digest" value="([0-9a-f]+)"', shown))
    assert f"updates?digest={digest}" in shown
    asked = await visitor.get(f"{PAGE}/confirm?action=approve&digest={digest}")
    assert f'name="digest" value="{digest}"' in asked.text
    assert (await decide(visitor, digest=digest)).status == 409
    assert list_patches(visitor) == []


@pytest.mark.parametrize(
    ("digest", "shown"),
    [
        pytest.param(DIGEST, b"action-approve", id="same plan"),
        pytest.param("1" * 64, b"does not exist", id="made again"),
    ],
)
async def test_an_open_page_follows_only_its_own_plan(visitor: Visitor, digest: str, shown: bytes) -> None:
    address = f"{visitor.origin}{visitor.root}{PAGE}/updates?digest={digest}"
    async with visitor.client.get(address, headers={"Cookie": visitor.cookie}) as answer:
        assert shown in await answer.content.readuntil(b"\n\n")


@pytest.mark.parametrize(
    ("form", "said"),
    [
        pytest.param({"digest": "0" * 64}, "another plan than the one that you have seen", id="another digest"),
        pytest.param({"action_token": "guessed"}, "the token of this page", id="another token"),
        pytest.param({"action": "delete"}, "no such action", id="another action"),
    ],
)
async def test_nothing_is_sent_for_another_form(visitor: Visitor, form: dict[str, str], said: str) -> None:
    reply = await decide(visitor, **form)

    assert (reply.status >= 400, said in reply.text) == (True, True)
    assert list_patches(visitor) == []


async def test_a_plan_that_has_ended_is_not_approved(visitor: Visitor) -> None:
    visitor.api.script |= make_script(make_plan("Superseded"), "patch", "approve")

    reply = await decide(visitor)

    assert (reply.status, "shop-3f9c1a2e is Superseded" in reply.text) == (409, True)
    assert list_patches(visitor) == []


async def test_the_list_has_the_present_plan_of_each_stack_that_waits(visitor: Visitor) -> None:
    other = {"kind": "Stack", "name": "billing", "uid": "u-2"}
    plans = [
        make_plan("Superseded", name="shop-00000000"),
        make_plan(),
        make_plan("Running", name="billing-00000000", stackRef=other),
        make_plan("Expired", name="search-00000000", stackRef={**other, "name": "search", "uid": "u-3"}),
    ]
    visitor.api.script[f"GET {PLANS}"] = {"items": plans}

    text = (await visitor.get("plans")).text

    assert "billing" not in text
    assert "shop-00000000" not in text
    assert 0 < text.index(f'{PAGE}"') < text.index("search-00000000")


async def test_no_name_of_a_stack_is_markup_either(visitor: Visitor) -> None:
    plan = make_plan(stackRef={"kind": HOSTILE, "name": HOSTILE, "uid": "u-1"})
    visitor.api.script |= make_script(plan, "patch", "approve")

    for path in ("plans", PAGE):
        assert "<img" not in (await visitor.get(path)).text


async def test_a_stack_says_what_waits_and_reads_the_plan_once(visitor: Visitor) -> None:
    for _ in range(2):
        text = (await visitor.get("stacks/prod/shop")).text
        assert "A change waits for an approval" in text
        assert "Delete 1, change 2" in text
        assert f'href="{visitor.root}{PAGE}"' in text

    assert visitor.api.asked.count(f"GET {PLANS}") == 1


@pytest.mark.parametrize("path", ["plans", PAGE, f"{PAGE}/confirm?action=approve", "stacks/prod/shop"])
async def test_a_change_that_switches_approvals_off_says_so(visitor: Visitor, path: str) -> None:
    warning = change_plans.SWITCHED_OFF["off"]
    plan = make_plan(definitionHash="k1:2/off", notes=[warning])
    visitor.api.script |= make_script(plan, "patch", "approve")

    assert (await visitor.get(path)).text.count(f"The change {warning}.") == 1


async def test_a_user_who_cannot_read_plans_sees_that_a_change_waits(visitor: Visitor) -> None:
    visitor.api.script[f"GET {PLANS}"] = api_errors.refuse(403, "Forbidden", "no")

    text = (await visitor.get("stacks/prod/shop")).text

    assert "A change waits for an approval" in text
    assert "You cannot see its plan" in text


async def test_no_plan_is_read_for_a_stack_that_does_not_wait(visitor: Visitor) -> None:
    visitor.api.script[f"GET {SHOP}"] = stack_page.make_stack()

    assert "waits for an approval" not in (await visitor.get("stacks/prod/shop")).text
    assert f"GET {PLANS}" not in visitor.api.asked


async def test_a_read_only_page_has_no_buttons_and_sends_nothing() -> None:
    cluster = Cluster(script=make_script(None, "patch", "approve"))
    async with team_page.serve(cluster, is_read_only=True) as team:
        shown = await team.get(f"/{PAGE}", ANNA)
        asked = await team.get(f"/{PAGE}/confirm?action=approve", ANNA)
        form = {"action": "approve", "digest": DIGEST, "action_token": team_page.KEY.make_action_token(ANNA)}
        sent = await team.send("POST", f"/{PAGE}/act", form, Authorization=f"Bearer {ANNA}")

    assert (shown.status, "action-approve" in shown.text) == (200, False)
    assert (asked.status, sent.status) == (403, 403)
    assert "this page is read-only" in sent.text
    asked_api = cluster.find(ANNA).asked
    assert REVIEW not in asked_api
    assert f"PATCH {PLAN}" not in asked_api


async def test_a_user_of_one_namespace_is_asked_for_it() -> None:
    cluster = Cluster(
        script=make_script() | {"GET /apis/hearth.dev/v1alpha1/stackplans": api_errors.refuse(403, "Forbidden", "no")}
    )
    async with team_page.serve(cluster) as team:
        everywhere = await team.get("/plans", ANNA)
        there = await team.get("/plans?namespace=prod", ANNA)

    assert (everywhere.status, 'action="/plans"' in everywhere.text) == (403, True)
    assert (there.status, f"/{PAGE}" in there.text) == (200, True)
