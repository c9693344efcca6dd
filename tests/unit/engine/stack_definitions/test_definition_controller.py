"""StackDefinitions in a fake world: rejected definitions, held changes, and the limits of a hostile user of
instances.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from hearth.model import errors, names, retry_delays, sharding, well_known_kinds
from hearth.model.child import Object
from hearth.template.instances import instance_schema
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds, request_faults
from support.stories import stack_manifests
from support.stories.world import Address

GROUP = fake_kinds.DEFINED_GROUP
CONFIG_MAP = well_known_kinds.CONFIG_MAP
SITE = Address(api_version=f"{GROUP}/v1alpha1", kind="Site", namespace="default", name="one")
NAME = f"sites.{GROUP}"
DEFINITION = Address(api_version=f"{names.GROUP}/{names.VERSION}", kind="StackDefinition", namespace="", name=NAME)
CRD = Address(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", namespace="", name=NAME)
PAGE = Address(api_version="v1", kind="ConfigMap", namespace="default", name="one-page")


POLICY = Address(
    api_version="admissionregistration.k8s.io/v1", kind="ValidatingAdmissionPolicy", namespace="", name=NAME
)
BINDING = dataclasses.replace(POLICY, kind="ValidatingAdmissionPolicyBinding")
KIND = Address(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", namespace="", name=NAME)


def make_spec(*, layout: str = "one", group: str = GROUP, **parameters: Any) -> Object:
    page = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"layout": layout}}
    return {
        "group": group,
        "names": {"kind": "Site", "plural": "sites"},
        "versions": [{"name": "v1alpha1"}],
        "scope": "Namespaced",
        "template": {
            "parameters": {"title": {"type": "string", "default": "x"}, **parameters},
            "resources": {"page": {"manifest": page}},
        },
    }


async def define(world: FakeWorld, spec: Object, *, name: str = NAME) -> None:
    await world.user.create(
        {"apiVersion": DEFINITION.api_version, "kind": DEFINITION.kind, "metadata": {"name": name}, "spec": spec}
    )
    await world.wait_rest()


async def make_site(world: FakeWorld, **spec: Any) -> None:
    metadata = {"name": SITE.name, "namespace": SITE.namespace}
    await world.user.create({"apiVersion": SITE.api_version, "kind": SITE.kind, "metadata": metadata, "spec": spec})
    await world.wait_rest()


async def read(world: FakeWorld, address: Address) -> Object:
    found = await world.user.find(address)
    assert found is not None, address
    return found


def find_ready(raw: Object) -> tuple[str, str]:
    """Reason and message of `Ready`."""
    ready = next(each for each in raw["status"]["conditions"] if each["type"] == "Ready")
    return ready["reason"], ready["message"]


@fake_world.in_world
async def test_a_group_that_the_operator_may_not_use_says_how_to_allow_it(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec(group="other.example"), name="sites.other.example")
    reason, message = find_ready(await read(world, dataclasses.replace(DEFINITION, name="sites.other.example")))
    assert reason == "InvalidDefinition"
    assert "--definition-groups=other.example,platform.example" in message


@fake_world.in_world
async def test_a_definition_that_another_installation_serves_is_left_alone(world: FakeWorld) -> None:
    name = "sites.other.example"
    other = dataclasses.replace(DEFINITION, name=name)
    await define(world, make_spec(group="other.example"), name=name)
    uid = (await read(world, other))["metadata"]["uid"]
    annotations = {names.ANNOTATION_DEFINITION: uid, names.ANNOTATION_SIGNATURE: "k00000000:theirs"}
    crd = instance_schema.make_crd(make_spec(group="other.example"))
    await world.user.create({**crd, "metadata": {"name": name, "annotations": annotations}})
    await world.start_controller()
    await world.wait_rest()
    assert "conditions" not in (await read(world, other)).get("status", {})
    await world.user.replace_spec(other, make_spec(group="other.example", layout="two"))
    await world.wait_rest()
    assert "conditions" not in (await read(world, other)).get("status", {})


@fake_world.in_world
async def test_an_instance_that_does_not_fit_keeps_its_revision_until_it_does(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec(size={"type": "integer", "default": 1}))
    await make_site(world, size=7)
    await world.user.create(
        {"apiVersion": SITE.api_version, "kind": SITE.kind, "metadata": {"name": "two", "namespace": "default"}}
    )
    stricter = make_spec(layout="two", size={"type": "integer", "default": 1, "maximum": 5})
    await world.user.replace_spec(DEFINITION, stricter)
    await world.wait_rest()
    found = await read(world, DEFINITION)
    reason, message = find_ready(found)
    assert (reason, "default/one: does not fit revision 2: spec.size: must be at most 5" in message) == (
        "Complete",
        True,
    )
    held = found["status"]["rollout"]["heldInstances"]
    assert [(each["name"], "must be at most 5" in each["message"]) for each in held] == [("one", True)]
    assert (await read(world, PAGE))["data"]["layout"] == "one"
    assert (await read(world, dataclasses.replace(PAGE, name="two-page")))["data"]["layout"] == "two"
    crd = await read(world, CRD)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert schema["size"]["maximum"] == 5

    await world.user.patch(SITE, {"spec": {"size": 3}})
    await world.wait(10.0)
    await world.wait_rest()
    assert (await read(world, PAGE))["data"]["layout"] == "two"
    assert "heldInstances" not in (await read(world, DEFINITION))["status"]["rollout"]


@fake_world.in_world
async def test_an_option_that_is_dropped_still_counts_for_the_instances_that_state_it(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec() | {"options": ["deletionPolicy"]})
    await make_site(world, stack={"deletionPolicy": "Abandon"})
    await world.user.replace_spec(DEFINITION, make_spec(layout="two"))
    await world.wait_rest()
    held = (await read(world, DEFINITION))["status"]["rollout"]["heldInstances"]
    assert "spec.stack.deletionPolicy: is not an option of StackDefinition" in held[0]["message"]
    assert (await read(world, SITE))["spec"]["stack"] == {"deletionPolicy": "Abandon"}

    await world.user.delete(SITE)
    await world.wait_rest()
    assert (await read(world, PAGE))["data"]["layout"] == "one"
    await world.user.delete(PAGE)


@fake_world.in_world
async def test_a_right_that_is_taken_back_is_lost_at_every_revision(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec() | {"minimumRevision": 1})
    await make_site(world, stack={"definitionRevision": 1})
    await world.user.replace_spec(DEFINITION, make_spec(layout="two"))
    await world.wait_rest()
    metadata = {"name": "late", "namespace": "default"}
    spec = {"stack": {"definitionRevision": 1}}
    await world.user.create({"apiVersion": SITE.api_version, "kind": SITE.kind, "metadata": metadata, "spec": spec})
    await world.wait_rest()
    assert (await read(world, dataclasses.replace(PAGE, name="late-page")))["data"]["layout"] == "two"
    late = await read(world, dataclasses.replace(SITE, name="late"))
    assert "spec.stack.definitionRevision: is 1" in late["status"]["warnings"][0]
    assert (await read(world, PAGE))["data"]["layout"] == "one"

    await world.user.replace_spec(DEFINITION, make_spec(layout="two") | {"minimumRevision": 2})
    await world.wait_rest()
    assert (await read(world, PAGE))["data"]["layout"] == "two"


@fake_world.in_world
async def test_what_its_user_rolled_back_is_counted_by_what_its_objects_have(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec())
    await make_site(world)
    await world.user.replace_spec(DEFINITION, make_spec(layout="two"))
    await world.wait_rest()
    await world.user.patch(SITE, {"spec": {"stack": {"rollback": {"toRevision": 1}}}})
    await world.wait_rest()
    assert (await read(world, PAGE))["data"]["layout"] == "one"
    assert (await read(world, SITE))["status"]["definitionRevision"] == 1
    found = (await read(world, DEFINITION))["status"]
    assert (found["updated"], found["rollout"]["updated"]) == (0, 0)
    assert found["rollout"]["heldInstances"][0]["message"] == "was rolled back by its user"


@fake_world.in_world
async def test_a_pin_to_a_revision_that_does_not_exist_is_held_and_reported(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec())
    await make_site(world, stack={"definitionRevision": 3})
    held = (await read(world, DEFINITION))["status"]["rollout"]["heldInstances"]
    assert "has no revision 3 (1 to 1)" in held[0]["message"]
    assert "has no revision 3 (1 to 1)" in (await read(world, SITE))["status"]["warnings"][0]
    await world.user.replace_spec(DEFINITION, make_spec(layout="two"))
    await world.wait_rest()
    assert (await read(world, PAGE))["data"]["layout"] == "one"
    await world.user.replace_spec(DEFINITION, make_spec(layout="three"))
    await world.wait_rest()
    assert (await read(world, PAGE))["data"]["layout"] == "three"


@fake_world.in_world
async def test_a_kind_within_its_own_template_is_refused(world: FakeWorld) -> None:
    await world.start_controller()
    site = {"apiVersion": SITE.api_version, "kind": SITE.kind}
    nested = {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "Stack",
        "spec": {"template": {"resources": {"next": {"manifest": site}}}},
    }
    spec = make_spec()
    spec["template"]["resources"] |= {"self": {"manifest": site}, "nested": {"manifest": nested}}
    await define(world, spec)
    reason, message = find_ready(await read(world, DEFINITION))
    assert reason == "InvalidDefinition"
    assert "spec.template.resources.self.manifest.kind: is Site" in message
    assert "spec.template.resources.nested.manifest.spec.template.resources.next.manifest.kind: is Site" in message


@fake_world.in_world
async def test_a_pinned_instance_keeps_its_revision_and_follows_when_it_is_released(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec())
    await make_site(world, stack={"definitionRevision": 1})
    await world.user.replace_spec(DEFINITION, make_spec(layout="two"))
    await world.wait_rest()
    assert find_ready(await read(world, DEFINITION))[0] == "Complete"
    assert (await read(world, PAGE))["data"]["layout"] == "one"

    await world.kill_controller()
    await world.start_controller()
    await world.wait_rest()
    assert (await read(world, PAGE))["data"]["layout"] == "one"
    await world.user.patch(SITE, {"spec": {"stack": None}})
    await world.wait_rest()
    assert (await read(world, PAGE))["data"]["layout"] == "two"


@fake_world.in_world
async def test_a_definition_that_is_orphaned_leaves_all_as_it_is(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec() | {"deletionPolicy": "Orphan"})
    await make_site(world)
    page = await read(world, PAGE)
    await world.kill_controller()
    await world.user.delete(DEFINITION)
    await world.start_controller()
    await world.wait_rest()
    assert await world.user.find(DEFINITION) is None
    assert (await read(world, PAGE)) == page
    site = await read(world, SITE)
    assert names.FINALIZER not in site["metadata"].get("finalizers", ())
    await world.user.delete(SITE)
    await world.wait_rest()
    assert await world.user.find(SITE) is None
    assert (await read(world, PAGE)) == page
    # The checks of this world ignore the remaining objects, because it treats them as objects that a deleted Stack left
    # behind.
    await world.user.delete(PAGE)


@pytest.mark.parametrize("is_collector_refused", [False, True], ids=["collected", "not collected"])
@pytest.mark.parametrize("is_away", [False, True], ids=["seen", "unseen"])
@fake_world.in_world
async def test_a_definition_that_is_deleted_with_cascade_orphan_leaves_all_as_it_is(
    world: FakeWorld, is_away: bool, is_collector_refused: bool
) -> None:
    await world.start_controller()
    await define(world, make_spec())
    await make_site(world)
    page = await read(world, PAGE)
    if is_away:
        await world.kill_controller()
    world.server.is_collector_refused = is_collector_refused
    await world.user.delete(DEFINITION, cascade="orphan")
    if is_away:
        await world.start_controller()
    await world.wait_rest()
    assert await world.user.find(DEFINITION) is None
    assert (await read(world, PAGE)) == page
    assert names.FINALIZER not in (await read(world, SITE))["metadata"].get("finalizers", ())
    await world.user.delete(SITE)
    await world.user.delete(PAGE)


@pytest.mark.parametrize("is_collector_refused", [False, True], ids=["collected", "not collected"])
@pytest.mark.parametrize("is_away", [False, True], ids=["seen", "unseen"])
@fake_world.in_world
async def test_an_instance_that_is_deleted_with_cascade_orphan_releases_its_objects(
    world: FakeWorld, is_away: bool, is_collector_refused: bool
) -> None:
    await world.start_controller()
    await define(world, make_spec())
    await make_site(world)
    if is_away:
        await world.kill_controller()
    world.server.is_collector_refused = is_collector_refused
    await world.user.delete(SITE, cascade="orphan")
    if is_away:
        await world.start_controller()
    await world.wait_rest()
    assert await world.user.find(SITE) is None
    assert "annotations" not in (await read(world, PAGE))["metadata"]
    await world.user.delete(PAGE)


@fake_world.in_world
async def test_an_orphaned_instance_is_not_looked_after_any_more(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec() | {"deletionPolicy": "Orphan"})
    await make_site(world)
    await world.user.delete(DEFINITION)
    await world.wait_rest()
    await world.user.patch(PAGE, {"data": {"layout": "changed"}})
    await world.wait_rest()
    assert (await read(world, PAGE))["data"]["layout"] == "changed"
    await world.user.delete(SITE)
    await world.user.delete(PAGE)


VIEW, EDIT = (
    Address(api_version="rbac.authorization.k8s.io/v1", kind="ClusterRole", namespace="", name=f"sites-{word}")
    for word in ("view", "edit")
)


@fake_world.in_world
async def test_roles_for_users_of_the_kind_are_made_on_request_and_go_with_it(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec() | {"roles": "Aggregate"})
    edit = await read(world, EDIT)
    assert edit["metadata"]["labels"] == {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}
    assert [rule["resources"] for rule in edit["rules"]] == [["sites"]]
    assert (await read(world, DEFINITION))["status"]["roles"] == ["sites-view", "sites-edit"]

    # The next change of the definition reverts changes by other clients.
    await world.user.patch(EDIT, {"rules": []})
    await world.user.replace_spec(DEFINITION, make_spec(layout="two") | {"roles": "Aggregate"})
    await world.wait_rest()
    assert (await read(world, EDIT))["rules"] == edit["rules"]

    await world.user.replace_spec(DEFINITION, make_spec(layout="two"))
    await world.wait_rest()
    assert [await world.user.find(each) for each in (VIEW, EDIT)] == [None, None]
    assert (await read(world, DEFINITION))["status"]["roles"] == []

    await world.user.replace_spec(DEFINITION, make_spec(layout="two") | {"roles": "Aggregate"})
    await world.wait_rest()
    await world.user.delete(DEFINITION)
    await world.wait_rest()
    assert [await world.user.find(each) for each in (DEFINITION, VIEW, EDIT)] == [None, None, None]


@fake_world.in_world
async def test_a_kind_whose_instances_choose_rights_is_served_after_the_policy_that_checks_them(
    world: FakeWorld,
) -> None:
    await world.start_controller()
    world.traffic.troubles.append(
        request_faults.Trouble(
            refusal=request_faults.REFUSALS["denied"], verbs=frozenset({"apply-kind"}), kind=POLICY.kind
        )
    )
    spec = make_spec() | {"options": ["serviceAccountName"]}
    await world.user.create(
        {"apiVersion": DEFINITION.api_version, "kind": DEFINITION.kind, "metadata": {"name": NAME}, "spec": spec}
    )
    await world.wait(10.0)
    reason, message = find_ready(await read(world, DEFINITION))
    assert (reason, "is not allowed to write the ValidatingAdmissionPolicy" in message) == ("KindTaken", True)
    assert await world.user.find(KIND) is None

    world.traffic.troubles.clear()
    await world.wait(retry_delays.DEFINITION_RIGHTS.first + 10)
    assert find_ready(await read(world, DEFINITION))[0] == "Complete"
    assert [await world.user.find(each) is None for each in (KIND, POLICY, BINDING)] == [False, False, False]


@fake_world.in_world
async def test_a_policy_of_a_deleted_definition_is_updated_and_one_of_another_client_is_not(world: FakeWorld) -> None:
    await world.start_controller()
    spec = make_spec() | {"options": ["serviceAccountName"]}
    await define(world, spec)
    left = await read(world, POLICY)
    await world.user.delete(DEFINITION)
    await world.wait_rest()
    definition = {
        "apiVersion": DEFINITION.api_version,
        "kind": DEFINITION.kind,
        "metadata": {"name": NAME},
        "spec": spec,
    }
    await world.user.create({**left, "metadata": {**left["metadata"], "ownerReferences": []}})
    await world.user.create(definition)
    await world.wait(10.0)
    assert find_ready(await read(world, DEFINITION))[0] == "Complete"
    owner = (await read(world, DEFINITION))["metadata"]["uid"]
    assert [each["uid"] for each in (await read(world, POLICY))["metadata"]["ownerReferences"]] == [owner]

    await world.user.delete(DEFINITION)
    await world.wait_rest()
    await world.user.create({**left, "metadata": {"name": NAME}})
    await world.user.create(definition)
    await world.wait(10.0)
    reason, message = find_ready(await read(world, DEFINITION))
    assert (reason, "a ValidatingAdmissionPolicy or binding" in message) == ("KindTaken", True)


@fake_world.in_world
async def test_a_kind_without_such_options_needs_no_policy(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec())
    assert await world.user.find(POLICY) is None


@fake_world.in_world
async def test_a_role_of_another_client_is_neither_changed_nor_deleted(world: FakeWorld) -> None:
    await world.start_controller()
    theirs = {"apiVersion": EDIT.api_version, "kind": EDIT.kind, "metadata": {"name": EDIT.name}, "rules": []}
    await world.user.create(theirs)
    spec = make_spec() | {"roles": "Aggregate"}
    await world.user.create(
        {"apiVersion": DEFINITION.api_version, "kind": DEFINITION.kind, "metadata": {"name": NAME}, "spec": spec}
    )
    await world.wait(10.0)
    reason, message = find_ready(await read(world, DEFINITION))
    assert (reason, "a ClusterRole sites-edit already exists" in message) == ("RolesRefused", True)
    await world.user.replace_spec(DEFINITION, make_spec())
    await world.wait_rest()
    assert find_ready(await read(world, DEFINITION))[0] == "Complete"
    assert (await read(world, EDIT))["rules"] == []
    assert await world.user.find(VIEW) is None


@fake_world.in_world
async def test_an_instance_beside_a_stack_of_its_name_has_objects_of_its_own(world: FakeWorld) -> None:
    await world.start_controller()
    page = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"layout": "of the Stack"}}
    template = {"resources": {"page": {"manifest": page}}}
    await world.user.create(stack_manifests.make_stack({"template": template}, name=SITE.name))
    await define(world, make_spec())
    await make_site(world)
    assert (await read(world, PAGE))["data"]["layout"] == "of the Stack"
    site = await read(world, SITE)
    assert find_ready(site)[0] == "Complete"
    found = await world.user.find_children(site["metadata"]["uid"], {"ConfigMap"})
    assert [each["data"]["layout"] for each in found] == ["one"]
    assert found[0]["metadata"]["name"].startswith(f"{PAGE.name}-")


@fake_world.in_world
async def test_old_revisions_that_no_instance_has_are_deleted(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec())
    await make_site(world, stack={"definitionRevision": 1})
    for number in range(2, 16):
        await world.user.replace_spec(DEFINITION, make_spec(layout=f"layout {number}"))
        await world.wait_rest()
    mine = (await read(world, SITE))["metadata"]["uid"]
    (own,) = (raw for raw in world.server.list_all(fake_kinds.CONTROLLER_REVISION.kind) if is_owned(raw, mine))
    assert own["metadata"]["annotations"][names.ANNOTATION_DEFINITION_REVISION] == "1"
    uid = (await read(world, DEFINITION))["metadata"]["uid"]
    listed = [raw for raw in world.server.list_all(fake_kinds.CONTROLLER_REVISION.kind) if is_owned(raw, uid)]
    assert sorted(raw["revision"] for raw in listed) == [1, *range(6, 16)]

    await world.kill_controller()
    await world.start_controller()
    await world.wait_rest()
    assert (await read(world, PAGE))["data"]["layout"] == "one"
    assert find_ready(await read(world, DEFINITION))[0] == "Complete"


def is_owned(raw: Object, uid: str) -> bool:
    return any(each["uid"] == uid for each in raw["metadata"].get("ownerReferences") or ())


@fake_world.in_world
async def test_a_forged_status_or_label_of_an_instance_reaches_nothing(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec())
    await make_site(world)
    await world.kill_controller()
    await world.user.patch_status(
        SITE, {"definitionRevision": 999, "controllerState": {"definitionRevision": 999}, "phase": "CreateComplete"}
    )
    await world.user.patch(SITE, {"metadata": {"annotations": {names.PROMOTE: "999"}}})
    await world.start_controller()
    await world.wait_rest()
    site = await read(world, SITE)
    assert site["status"]["definitionRevision"] == 1
    assert (await read(world, PAGE))["data"]["layout"] == "one"


@fake_world.in_world
async def test_options_that_are_not_listed_are_without_effect_even_past_the_schema(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec())
    # Store it as if the API server had not pruned it.
    raw = {
        "apiVersion": SITE.api_version,
        "kind": SITE.kind,
        "metadata": {"name": SITE.name, "namespace": SITE.namespace},
        "spec": {"stack": {"paused": True}},
    }
    await world.user.create(raw)
    await world.wait_rest()
    assert await world.user.find(PAGE) is None
    await world.user.patch(SITE, {"spec": {"stack": None}})
    await world.wait_rest()
    assert await world.user.find(PAGE) is not None


def test_a_tampered_revision_is_not_used() -> None:
    async def test(world: FakeWorld) -> None:
        await world.start_controller()
        await define(world, make_spec())
        await make_site(world)
        await world.kill_controller()
        definition = await read(world, DEFINITION)
        (revision,) = await world.user.find_revisions(definition["metadata"]["uid"])
        stolen: Object = {"template": {"resources": {}}, "parameters": {}}
        address = Address(
            api_version="apps/v1",
            kind="ControllerRevision",
            namespace=revision["metadata"]["namespace"],
            name=revision["metadata"]["name"],
        )
        await world.user.patch(
            address, {"data": {**stolen, "template": {"parameters": None, "resources": {"page": None}}}}
        )
        await world.start_controller()
        await world.wait_rest()
        assert (await read(world, PAGE))["data"]["layout"] == "one"

    with_logs = fake_world.find_mistakes(test)
    assert [line for line in with_logs if "Traceback" in line] == []


@fake_world.in_world
async def test_a_definition_with_instances_stays_and_ends_with_the_last_one(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec())
    await make_site(world)
    await world.user.delete(DEFINITION)
    await world.wait_rest()
    reason, message = find_ready(await read(world, DEFINITION))
    assert reason == "DeletionBlocked"
    assert "default/one" in message
    await world.user.delete(SITE)
    await world.wait(10.0)
    await world.wait_rest()
    assert await world.user.find(DEFINITION) is None
    assert await world.user.find(PAGE) is None


@fake_world.in_world
async def test_objects_are_written_as_the_account_of_the_definition_and_beside_the_instance_alone(
    world: FakeWorld,
) -> None:
    world.definer_accounts = frozenset({"platform:webapps"})
    await world.start_controller()
    spec = make_spec(where={"type": "string"})
    spec["template"]["resources"]["page"]["manifest"]["metadata"] = {"namespace": "${params.where}"}
    await define(world, spec | {"account": {"namespace": "platform", "name": "webapps"}})
    await make_site(world, where="default")
    users = {each.user for each in world.traffic.requests if each.verb == "apply"}
    assert users == {"system:serviceaccount:platform:webapps"}

    await world.user.replace_spec(SITE, {"where": "vault"})
    await world.wait_rest()
    reason, message = find_ready(await read(world, SITE))
    assert reason == "NamespaceNotAllowed"
    assert f"StackDefinition {NAME} can only create objects in the namespace of each instance, default" in message


@fake_world.in_world
async def test_an_account_that_the_operator_may_not_use_any_more_is_not_used(world: FakeWorld) -> None:
    world.definer_accounts = frozenset({"platform:webapps"})
    await world.start_controller()
    spec = make_spec() | {"account": {"namespace": "platform", "name": "webapps"}}
    await define(world, spec)
    await make_site(world)
    page = await read(world, PAGE)

    await world.kill_controller()
    world.definer_accounts = frozenset({"platform:others"})
    await world.user.patch(PAGE, {"data": {"layout": "drifted"}})
    await world.start_controller()
    await world.wait_rest()
    assert "--definition-accounts=platform:webapps" in find_ready(await read(world, SITE))[1]
    assert (await read(world, PAGE))["data"] == {"layout": "drifted"}
    reason, message = find_ready(await read(world, DEFINITION))
    assert reason == "InvalidDefinition"
    assert "--definition-accounts=platform:others,platform:webapps" in message
    assert page["metadata"]["uid"] == (await read(world, PAGE))["metadata"]["uid"]


@fake_world.in_world
async def test_an_event_says_what_became_of_a_definition_once_for_each_reason(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec())
    await make_site(world)
    await world.user.replace_spec(DEFINITION, make_spec(layout="two"))
    await world.wait_rest()
    broken = make_spec(layout="${params.nothing}")
    await world.user.replace_spec(DEFINITION, broken)
    await world.wait_rest()
    await world.user.replace_spec(DEFINITION, make_spec(layout="${params.other}"))
    await world.wait_rest()

    said = [(type_, reason) for name, type_, reason, _ in world.traffic.events if name == NAME]
    assert said == [
        ("Normal", "Complete"),
        ("Normal", "RollingOut"),
        ("Normal", "Complete"),
        ("Warning", "InvalidDefinition"),
        ("Warning", "InvalidDefinition"),
    ]


def make_mark(**reference: str) -> Object:
    metadata = {"name": "-".join(reference.values()).lower(), "namespace": "default"}
    spec = {"stackRef": reference, "resource": "page", "markUnhealthy": True, "reason": "stale"}
    return {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": "HealthMark", "metadata": metadata, "spec": spec}


@fake_world.in_world
async def test_a_mark_names_an_instance_by_its_kind_and_name(world: FakeWorld) -> None:
    await world.start_controller()
    await define(world, make_spec())
    await make_site(world)
    await world.user.create(make_mark(kind="Site", name="two"))
    await world.user.create(make_mark(kind="Spot", name="one"))
    await world.wait_rest()
    page = await read(world, PAGE)
    said = [await read_mark(world, name) for name in ("site-two", "spot-one")]
    assert said[0] == "namespace default has no Site two; there are: one"
    assert said[1] == "none or several StackDefinitions define the kind Spot; set spec.stackRef.group"

    await world.user.create(make_mark(kind="Site", name="one"))
    await world.wait_rest()
    status = (await read(world, address_of_mark("site-one")))["status"]
    assert status["stackRef"] == {"kind": "Site", "group": GROUP, "name": "one"}
    assert status["observedUID"] == page["metadata"]["uid"]
    (replaced,) = await find_pages(world)
    assert replaced != page["metadata"]["uid"]

    # No object is replaced twice, and a new process reads the status of the earlier one.
    await world.kill_controller()
    await world.start_controller()
    await world.wait_rest()
    assert await find_pages(world) == [replaced]


async def find_pages(world: FakeWorld) -> list[str]:
    """The UIDs of the objects of the instance."""
    uid = (await read(world, SITE))["metadata"]["uid"]
    return [each["metadata"]["uid"] for each in await world.user.find_children(uid, frozenset({"ConfigMap"}))]


def address_of_mark(name: str) -> Address:
    return Address(api_version=f"{names.GROUP}/{names.VERSION}", kind="HealthMark", namespace="default", name=name)


async def read_mark(world: FakeWorld, name: str) -> str:
    return find_ready(await read(world, address_of_mark(name)))[1]


SOURCE = Address(api_version="v1", kind="ConfigMap", namespace="default", name="site")


async def write_source(world: FakeWorld, template: Object) -> None:
    data = {"template.yaml": json.dumps(template)}
    if await world.user.find(SOURCE) is None:
        metadata = {"name": SOURCE.name, "namespace": SOURCE.namespace}
        await world.user.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    else:
        await world.user.patch(SOURCE, {"data": data})
    await world.wait_rest()


@fake_world.in_world
async def test_a_template_in_other_objects_is_waited_for_and_followed(world: FakeWorld) -> None:
    await world.start_controller()
    spec = make_spec()
    template = spec.pop("template")
    named = {"templateNamespace": "default", "templateRefs": [{"kind": "ConfigMap", "name": "site"}]}
    await define(world, {**spec, **named})
    reason, message = find_ready(await read(world, DEFINITION))
    assert reason == "SourceNotFound"
    assert message.startswith("spec.templateRefs[0]: configmap/site does not exist in namespace default; create it")

    await write_source(world, template)
    await make_site(world)
    assert (await read(world, PAGE))["data"] == {"layout": "one"}

    template["resources"]["page"]["manifest"]["data"]["layout"] = "two"
    await write_source(world, template)
    assert (await read(world, PAGE))["data"] == {"layout": "two"}
    assert (await read(world, DEFINITION))["status"]["revision"] == 2

    await write_source(world, {"resources": {"page": {"manifest": {"kind": 1}}}})
    reason, message = find_ready(await read(world, DEFINITION))
    assert reason == "InvalidDefinition"
    assert "(configmap/site template.yaml).resources.page.manifest" in message

    await world.user.delete(SOURCE)
    await world.wait_rest()
    assert find_ready(await read(world, DEFINITION))[0] == "SourceNotFound"
    assert (await read(world, PAGE))["data"] == {"layout": "two"}


def site(index: int) -> Address:
    return dataclasses.replace(SITE, name=f"site-{index}")


def page(index: int) -> Address:
    return dataclasses.replace(PAGE, name=f"site-{index}-page")


async def is_first_moved(world: FakeWorld) -> list[str]:
    """Return no objection once an instance has the second revision."""
    found = [(await read(world, site(index))).get("status") or {} for index in range(8)]
    return [] if any(status.get("definitionRevision") == 2 for status in found) else ["none has it"]


def test_several_processes_roll_out_one_definition() -> None:
    async def test(world: FakeWorld) -> None:
        await world.start_controller()
        waves = {"waves": [{"name": "first", "size": 2}], "maxUnavailable": 1}
        await define(world, {**make_spec(), "rollout": waves})
        for index in range(8):
            metadata = {"name": f"site-{index}", "namespace": "default"}
            await world.user.create({"apiVersion": SITE.api_version, "kind": "Site", "metadata": metadata, "spec": {}})
        await world.wait_rest()
        uids = [(await read(world, site(index)))["metadata"]["uid"] for index in range(8)]
        assert {sharding.bucket_of(uid) * 2 // sharding.BUCKETS for uid in uids} == {0, 1}, "both processes have some"
        assert [await world.user.find(page(index)) is not None for index in range(8)] == [True] * 8
        status = (await read(world, DEFINITION))["status"]
        assert (status["instances"], status["rollout"]["ready"]) == (8, 8)

        await world.user.patch(DEFINITION, {"spec": {**make_spec(layout="two"), "rollout": waves}})
        await world.wait_until(lambda: is_first_moved(world))
        await world.kill_controller()
        await world.start_controller()
        await world.wait_rest()

        status = (await read(world, DEFINITION))["status"]
        assert (status["revision"], status["updated"], status["instances"]) == (2, 8, 8)
        assert find_ready(await read(world, DEFINITION))[0] == "Complete"
        pages = [await read(world, page(index)) for index in range(8)]
        assert {each["data"]["layout"] for each in pages} == {"two"}

    fake_world.run(test, shards=2)


@fake_world.in_world
async def test_objects_of_an_instance_are_in_the_cluster_that_it_names_where_the_definition_lets_it(
    world: FakeWorld,
) -> None:
    await world.start_controller()
    await world.add_cluster("region")
    there = {"kubeConfig": {"secretRef": {"name": "region"}}}
    await define(world, make_spec())
    with pytest.raises(errors.ApiStatusError, match=r'unknown field "spec.stack.kubeConfig"'):
        await make_site(world, stack=there)

    await world.user.patch(DEFINITION, {"spec": {"options": ["kubeConfig"]}})
    await world.wait_rest()
    await make_site(world, stack=there)
    place = CONFIG_MAP, PAGE.namespace, PAGE.name
    assert world.others["region"].server.find(*place) is not None
    assert world.server.find(*place) is None
