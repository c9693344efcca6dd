"""StackDefinitions on the page: rollouts, the causes of failures, and the verbs of `kubectl stack rollout`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hearth.model import names
from hearth.model.child import Object
from support.server import api_errors
from support.units import stack_page, team_page
from support.units.stack_page import HOSTILE, Reply, Visitor
from support.units.team_page import ANNA, Cluster

NAME = "sites.platform.example"
PAGE = f"stackdefinitions/{NAME}"
DEFINITIONS = "/apis/hearth.dev/v1alpha1/stackdefinitions"
DEFINITION = f"{DEFINITIONS}/{NAME}"
INSTANCES = "/apis/platform.example/v1/sites"
REVIEW = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WAVES = [{"name": "canary", "select": {"matchLabels": {"stage": HOSTILE}}}, {"name": "early", "size": "10%"}]
KIND = {"resource": "sites", "responseKind": {"kind": "Site"}, "scope": "Namespaced", "verbs": ["list"], "categories": ["hearth"]}  # fmt: skip
DISCOVERY = {
    "kind": "APIGroupDiscoveryList",
    "items": [{"metadata": {"name": "platform.example"}, "versions": [{"version": "v1", "resources": [KIND]}]}],
}


def make_definition(phase: str = "Stopped", *, annotations: Object | None = None, **rollout: Any) -> Object:
    reported = {"revision": 7, "completed": 6, "phase": phase, "wave": "early", "updated": 3, "ready": 2, "waiting": 8}
    failed = [{"namespace": "prod", "name": "checkout", "message": f"image not found {HOSTILE}"}]
    held = [{"namespace": "../x", "name": HOSTILE, "message": HOSTILE}]
    ready = {"type": "Ready", "status": "False", "reason": "RolloutStopped", "message": HOSTILE}
    return {
        "metadata": {"name": NAME, "uid": "d-1", "generation": 1, "annotations": annotations or {}},
        "spec": {"group": "platform.example", "names": {"kind": f"Site{HOSTILE}"}, "rollout": {"waves": WAVES}},
        "status": {
            "observedGeneration": 1,
            "revision": 7,
            "instances": 12,
            "updated": 3,
            "rollout": {**reported, "failed": 1, "instances": failed, "heldInstances": held, **rollout},
            "conditions": [ready, {"type": "Stalled", "status": "True"}],
        },
    }


def make_instance(name: str, *, is_stalled: bool) -> Object:
    ready = {"type": "Ready", "status": str(not is_stalled), "reason": "x", "message": HOSTILE}
    stalled = {"type": "Stalled", "status": str(is_stalled)}
    status = {"phase": HOSTILE, "definitionRevision": 7, "observedGeneration": 1, "conditions": [ready, stalled]}
    return {"metadata": {"name": name, "namespace": "prod", "uid": name, "generation": 1}, "spec": {}, "status": status}


def make_script(definition: Object | None = None, *, is_allowed: bool = True) -> dict[str, Any]:
    definition = definition or make_definition()
    instances = [make_instance("blog", is_stalled=False), make_instance("checkout", is_stalled=True)]
    return {
        f"GET {DEFINITION}": definition,
        f"GET {DEFINITIONS}": {"items": [definition]},
        f"PATCH {DEFINITION}": definition,
        "GET /apis": DISCOVERY,
        f"GET {INSTANCES}": {"items": instances},
        "GET /apis/platform.example/v1/namespaces/prod/sites": {"items": instances},
        REVIEW: {"status": {"allowed": is_allowed}},
    }


@pytest.fixture
async def visitor() -> AsyncIterator[Visitor]:
    """A visitor who may control rollouts."""
    async with stack_page.visit() as made:
        made.api.script |= make_script()
        await made.enter()
        yield made


async def act(visitor: Visitor, **form: str) -> Reply:
    """Confirm a verb."""
    token = await visitor.find_action_token()
    headers = {"Cookie": visitor.cookie, "Origin": visitor.origin}
    return await visitor.send("POST", f"{visitor.root}{PAGE}/act", {"action_token": token, **form}, **headers)


def list_patches(visitor: Visitor) -> list[Object | None]:
    return [sent.body for sent in visitor.api.sent if str(sent) == f"PATCH {DEFINITION}"]


async def test_a_rollout_shows_its_failures_before_its_waves_and_instances(visitor: Visitor) -> None:
    text = (await visitor.get(PAGE)).text

    places = [
        text.index(each)
        for each in ("3 of 12 instances updated", "image not found", "Waves", "site/checkout", "site/blog")
    ]
    assert places == sorted(places)
    assert "revision 6 → 7" in text
    waves = [
        text.partition(f"<strong>{name}</strong> <span>")[2].partition("<")[0] for name in ("canary", "early", "rest")
    ]
    assert waves == ["complete", "stopped", "later"]
    assert f'href="{visitor.root}{NAME}/prod/checkout"' in text
    assert "..%2Fx/" in text


@pytest.mark.parametrize("path", ["definitions", PAGE, f"{PAGE}/confirm?action=undo", f"{NAME}/prod/checkout"])
async def test_no_text_of_a_definition_is_ever_markup(visitor: Visitor, path: str) -> None:
    visitor.api.script["GET /apis/platform.example/v1/namespaces/prod/sites/checkout"] = make_instance(
        "checkout", is_stalled=True
    )

    reply = await visitor.get(path)

    assert reply.status == 200, reply.text
    assert "<img" not in reply.text
    assert reply.text.count("<script") == 1
    assert ">49<" not in reply.text


async def test_a_gate_that_waits_names_the_commands_that_decide(visitor: Visitor) -> None:
    gates = [
        {"wave": "canary", "name": HOSTILE, "digest": "1" * 64, "state": "Passed"},
        {"wave": "early", "name": "manager", "digest": "3f9c1a2e" + "0" * 56, "state": "Waiting"},
    ]
    visitor.api.script |= make_script(make_definition("Progressing", gates=gates))

    text = (await visitor.get(PAGE)).text

    assert "manager after wave early" in text
    for verb in ("approve", "reject"):
        assert text.count(f"kubectl stack rollout {verb} ") == 1
        assert f"kubectl stack rollout {verb} {NAME} 3f9c1a2e" in text
    assert "<img" not in text


async def test_an_instance_leads_to_its_definition(visitor: Visitor) -> None:
    visitor.api.script["GET /apis/platform.example/v1/namespaces/prod/sites/blog"] = make_instance(
        "blog", is_stalled=False
    )

    assert f'href="{visitor.root}{PAGE}"' in (await visitor.get(f"{NAME}/prod/blog")).text


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_only_users_who_can_patch_the_definition_get_buttons(visitor: Visitor, *, is_allowed: bool) -> None:
    visitor.api.script |= make_script(is_allowed=is_allowed)

    assert ("action-undo" in (await visitor.get(PAGE)).text) is is_allowed


async def test_a_button_that_does_not_apply_says_why(visitor: Visitor) -> None:
    text = (await visitor.get(PAGE)).text

    assert "the rollout is not in a pause after a wave" in text
    assert ("action-pause" in text, "action-resume" in text) == (True, False)


@pytest.mark.parametrize(
    ("definition", "verb", "effect", "annotations"),
    [
        pytest.param(make_definition(), "undo", "3 instances return from revision 7 to revision 6.", {names.ROLLOUT_UNDO: "7"}, id="undo"),
        pytest.param(make_definition("Progressing"), "pause", "8 instances keep their revision until the rollout is resumed", {names.ROLLOUT_PAUSED: "true"}, id="pause"),
        pytest.param(make_definition("Paused", annotations={names.ROLLOUT_PAUSED: "true"}), "resume", "8 instances wait for revision 7.", {names.ROLLOUT_PAUSED: None}, id="resume"),
        pytest.param(make_definition("Progressing", readySince="2026-11-30T08:00:00Z"), "promote", "The pause after wave early ends now.", {names.ROLLOUT_PROMOTE: "7/early"}, id="promote"),
        pytest.param(make_definition(), "force", "8 waiting instances get revision 7 as well", {names.ROLLOUT_FORCE: "7"}, id="force"),
    ],
)  # fmt: skip
async def test_a_verb_says_what_it_does_and_writes_what_the_command_writes(
    visitor: Visitor, definition: Object, verb: str, effect: str, annotations: Object
) -> None:
    visitor.api.script |= make_script(definition)

    asked = await visitor.get(f"{PAGE}/confirm?action={verb}")
    assert (asked.status, effect in asked.text) == (200, True)
    assert list_patches(visitor) == []
    done = await act(visitor, action=verb)

    assert done.status == 200, done.text
    assert list_patches(visitor) == [{"metadata": {"uid": "d-1", "annotations": annotations}}]


@pytest.mark.parametrize(
    ("form", "status"),
    [
        pytest.param({"action": "undo", "action_token": "guessed"}, 403, id="another token"),
        pytest.param({"action": "delete"}, 400, id="another action"),
        pytest.param({"action": "promote"}, 409, id="does not apply"),
    ],
)
async def test_nothing_is_written_for_another_form(visitor: Visitor, form: dict[str, str], status: int) -> None:
    assert (await act(visitor, **form)).status == status
    assert list_patches(visitor) == []


async def test_the_list_leads_to_each_definition(visitor: Visitor) -> None:
    text = (await visitor.get("definitions")).text

    assert f'href="{visitor.root}{PAGE}"' in text
    assert "3/12" in text


async def test_a_user_of_one_namespace_sees_the_rollout_and_the_instances_there() -> None:
    refusal = api_errors.refuse(403, "Forbidden", "cannot list sites")
    cluster = Cluster(script=make_script(is_allowed=False) | {f"GET {INSTANCES}": refusal})
    async with team_page.serve(cluster) as team:
        shown = await team.get(f"/{PAGE}", ANNA)
        there = await team.get(f"/{PAGE}?namespace=prod", ANNA)

    assert shown.status == 200
    for text in ("3 of 12 instances updated", "cannot list sites", 'name="namespace"'):
        assert text in shown.text
    assert "site/blog" in there.text


async def test_a_read_only_page_controls_no_rollout() -> None:
    cluster = Cluster(script=make_script())
    async with team_page.serve(cluster, is_read_only=True) as team:
        shown = await team.get(f"/{PAGE}", ANNA)
        asked = await team.get(f"/{PAGE}/confirm?action=undo", ANNA)
        form = {"action": "undo", "action_token": team_page.KEY.make_action_token(ANNA)}
        sent = await team.send("POST", f"/{PAGE}/act", form, Authorization=f"Bearer {ANNA}")

    assert (shown.status, "action-undo" in shown.text) == (200, False)
    assert (asked.status, sent.status) == (403, 403)
    assert {f"PATCH {DEFINITION}", REVIEW}.isdisjoint(cluster.find(ANNA).asked)
