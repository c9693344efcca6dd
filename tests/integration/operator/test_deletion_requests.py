"""All ways to request the deletion of a Stack, on a real API server with its garbage collector."""

from __future__ import annotations

import orjson
import pytest

from hearth.kube.objects import controller_revision
from hearth.model import errors, names, value_class
from hearth.model.child import Object
from support.checks import expectations
from support.real.real_world import RealWorld
from support.stories.world import Address

API_VERSION = f"{names.GROUP}/{names.VERSION}"
STACKS = f"/apis/{API_VERSION}/namespaces/{{}}/stacks"
REVISIONS = "/apis/apps/v1/namespaces/{}/controllerrevisions"
CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"
ORPHAN, FOREGROUND, BACKGROUND = ({"propagationPolicy": policy} for policy in ("Orphan", "Foreground", "Background"))
ANOTHER_UID = "00000000-0000-4000-8000-000000000000"
GONE, LEFT, UNCHANGED = "both are deleted", "the Stack is deleted and its object stays", "both stay"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Requests about one Stack, and the result."""

    requests: tuple[Object, ...]
    """Options of the consecutive deletion requests."""
    result: str
    finalizers: tuple[str, ...] = ()
    """Finalizers that the Stack has from its creation."""
    code: int = 200
    """Status code of the last response."""


ROWS = {
    "no options": Row(requests=({},), result=GONE),
    "background": Row(requests=(BACKGROUND,), result=GONE),
    "foreground": Row(requests=(FOREGROUND,), result=GONE),
    "orphan": Row(requests=(ORPHAN,), result=LEFT),
    "orphan of old clients": Row(requests=({"orphanDependents": True},), result=LEFT),
    "orphan without a grace period": Row(requests=({**ORPHAN, "gracePeriodSeconds": 0},), result=LEFT),
    "background with a grace period": Row(requests=({**BACKGROUND, "gracePeriodSeconds": 30},), result=GONE),
    "the finalizer stated before": Row(requests=({},), finalizers=("orphan",), result=LEFT),
    "the finalizer stated before, and overruled": Row(requests=(BACKGROUND,), finalizers=("orphan",), result=GONE),
    "foreground stated before": Row(requests=({},), finalizers=("foregroundDeletion",), result=GONE),
    "orphan twice": Row(requests=(ORPHAN, ORPHAN), result=LEFT),
    "a dry run": Row(requests=({**ORPHAN, "dryRun": ["All"]},), result=UNCHANGED),
    "another UID": Row(requests=({**ORPHAN, "preconditions": {"uid": ANOTHER_UID}},), code=409, result=UNCHANGED),
}


async def request_deletion(world: RealWorld, stack: Object, row: Row) -> int:
    """Send the requests; return the code of the last answer."""
    path = f"{STACKS.format(world.namespace)}/{stack['metadata']['name']}"
    code = 200
    for options in row.requests:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        try:
            await world.user.connection.request("DELETE", path, body=body)
        except errors.ApiStatusError as refused:
            # 404: the Stack was deleted before the second request.
            code = 200 if refused.is_not_found else refused.code
    return code


async def list_names(world: RealWorld, path: str) -> set[str]:
    """The names of the objects of a collection in the namespace."""
    page = await world.user.connection.request("GET", path.format(world.namespace))
    return {raw["metadata"]["name"] for raw in page["items"]}


async def create_all(world: RealWorld) -> dict[str, Object]:
    """Create one Stack with one ConfigMap for each row, with generated names, and wait until all are complete."""
    await world.start_controller()
    made: dict[str, Object] = {}
    for id_, row in ROWS.items():
        # Each JSON library escapes `<`, `>` and `&` differently.
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "a<b && b>c", "key": "${stack.name}"}}
        spec = {"template": {"resources": {"only": {"manifest": manifest}}}}
        metadata = {"generateName": "deleted-", "namespace": world.namespace, "finalizers": list(row.finalizers)}
        body = {"apiVersion": API_VERSION, "kind": "Stack", "metadata": metadata, "spec": spec}
        made[id_] = await world.user.connection.request("POST", STACKS.format(world.namespace), body=body)

    async def find_incomplete() -> list[str]:
        found = [await world.user.find(Address.of(raw)) or {} for raw in made.values()]
        return [
            str(expectations.status_of(raw))
            for raw in found
            if expectations.status_of(raw).get("phase") != "CreateComplete"
        ]

    assert await world.wait_until(find_incomplete) == []
    return made


async def delete_all(world: RealWorld) -> dict[str, str]:
    """The result of each row, by its id."""
    made = await create_all(world)
    codes = {id_: await request_deletion(world, raw, ROWS[id_]) for id_, raw in made.items()}
    assert {id_: row.code for id_, row in ROWS.items()} == codes
    staying = {made[id_]["metadata"]["name"] for id_, row in ROWS.items() if row.result == UNCHANGED}

    async def find_left() -> list[str]:
        return sorted(await list_names(world, STACKS) - staying)

    assert await world.wait_until(find_left) == []
    revisions = await list_names(world, REVISIONS)
    assert {name for name in staying if not any(each.startswith(name) for each in revisions)} == set(), revisions
    assert len(revisions) == len(staying)
    stacks, objects = await list_names(world, STACKS), await list_names(world, CONFIG_MAPS)
    states = {(False, False): GONE, (False, True): LEFT, (True, True): UNCHANGED}
    found = {id_: raw["metadata"]["name"] for id_, raw in made.items()}
    return {id_: states[name in stacks, f"{name}-only" in objects] for id_, name in found.items()}


async def test_the_objects_of_a_stack_are_deleted_or_left_as_the_deletion_requests(world: RealWorld) -> None:
    expected = {id_: row.result for id_, row in ROWS.items()}
    assert await delete_all(world) == expected


async def test_a_revision_that_no_client_can_patch_keeps_no_stack_from_being_deleted(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_revision, "write_data", orjson.dumps)
    expected = {id_: row.result for id_, row in ROWS.items()}
    assert await delete_all(world) == expected


async def test_a_revision_can_be_labelled_whatever_its_definition_contains(world: RealWorld) -> None:
    await create_all(world)
    path = REVISIONS.format(world.namespace)
    for name in await list_names(world, REVISIONS):
        patch = {"metadata": {"labels": {"example.com/seen": "yes"}}}
        content_type = "application/strategic-merge-patch+json"
        await world.user.connection.request("PATCH", f"{path}/{name}", body=patch, content_type=content_type)
