"""The actions of story steps on a world. One function per action."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from hearth.model import names
from hearth.model.child import Object
from hearth.model.tenancy import Mode
from support.checks import group_expansion, stack_plans
from support.server import fake_kinds, fake_objects, request_faults
from support.stateful.adversaries import Adversary
from support.stories import probe_controller, story
from support.stories.story import Step
from support.stories.world import Address

if TYPE_CHECKING:
    from support.stories.story_runner import Play, StackPlayed

BETWEEN_TAKINGS = 0.1
REAL_CONTEST = 10.0
"""Seconds of a contest on a real server, where no test waits for the slow answers of a long contest."""
Act: TypeAlias = "Callable[[Any, StackPlayed, Play], Awaitable[None]]"


async def act(step: Step, stack: StackPlayed, play: Play) -> None:
    """Run the action of the step."""
    await ACTIONS[step.action](step.what, stack, play)


async def apply(what: Object, stack: StackPlayed, play: Play) -> None:
    """Create the Stack, or replace its spec."""
    stack.spec = what
    listed = group_expansion.find_listed(what)
    stack.removed = listed if what.get("removalPoliciesMode") == "Update" else stack.removed | listed
    await play.put(stack, story.set_window(story.expand(what), now=play.world.now()))


async def edit(what: Object, stack: StackPlayed, play: Play) -> None:
    """Merge a change into the spec, in the story's short form."""
    await apply(story.edit(stack.spec, what), stack, play)


async def remove(what: list[str], stack: StackPlayed, play: Play) -> None:
    """Take resources out of the template."""
    await edit({"template": {"resources": dict.fromkeys(what)}}, stack, play)


async def tamper(what: Mapping[str, Any], stack: StackPlayed, play: Play) -> None:
    """Change fields of a child behind the operator's back."""
    found = await play.get_child(stack, what["object"])
    patch: Object = {}
    for path, value in [*what.get("set", {}).items(), *((path, None) for path in what.get("unset", ()))]:
        put(patch, path, value)
    await play.world.user.patch(Address.of(found), patch)


async def scale(what: Mapping[str, Any], stack: StackPlayed, play: Play) -> None:
    """Set the replica count of a child, or of the group itself, through its scale subresource."""
    if "object" not in what:
        stack.spec = {**stack.spec, "replicas": what["replicas"]}
        await play.world.user.scale(play.address_of(stack.name), what["replicas"], manager=what.get("as", "keda"))
        return
    found = await play.get_child(stack, what["object"])
    await play.world.user.scale(Address.of(found), what["replicas"], manager=what.get("as", "keda"))


async def contend(what: Mapping[str, Any], stack: StackPlayed, play: Play) -> None:
    """Take over fields of a child ten times a second, like a competing user; on a real server only for a moment."""
    address = Address.of(await play.get_child(stack, what["object"]))
    patch: Object = {}
    for path, value in what["set"].items():
        put(patch, path, value)
    seconds = story.parse_duration(what["for"])
    for _ in range(int((seconds if play.world.has_virtual_time else min(seconds, REAL_CONTEST)) / BETWEEN_TAKINGS)):
        live = await play.world.user.find(address) or {}
        if fake_objects.merge_patch(live, patch) != live:
            await play.world.user.patch(address, patch)
        await asyncio.sleep(BETWEEN_TAKINGS)


async def harass(what: Mapping[str, Any], stack: StackPlayed, play: Play) -> None:
    """Let another client undo the writes to a child ten times a second; on a real server only for a moment."""
    children = functools.partial(play.find_children, stack, what["object"])
    adversary = Adversary(play.world.user, [what["with"]], find_children=children)
    seconds = story.parse_duration(what["for"])
    adversary.start()
    await asyncio.sleep(seconds if play.world.has_virtual_time else min(seconds, REAL_CONTEST))
    await adversary.stop()


async def delete_object(what: str, stack: StackPlayed, play: Play) -> None:
    """Delete a child behind the operator's back."""
    await play.world.user.delete(Address.of(await play.get_child(stack, what)))


async def delete_stack(what: Any, stack: StackPlayed, play: Play) -> None:
    """Delete the Stack; `{cascade: orphan}` or `{cascade: foreground}`: as kubectl does with that option."""
    await play.world.user.delete(play.address_of(stack.name), **(what or {}))


async def fail(what: Mapping[str, Any], stack: StackPlayed, play: Play) -> None:
    """Let the operator's next writes of a resource be refused."""
    play.world.traffic.troubles.append(
        request_faults.Trouble(
            refusal=request_faults.REFUSALS[what["with"]],
            resource=what.get("resource"),
            kind=what.get("kind"),
            times=what.get("times"),
            verbs=frozenset(what.get("verbs", request_faults.CHILD_WRITES)),
        )
    )


async def recover(what: Any, stack: StackPlayed, play: Play) -> None:
    """Stop refusing requests."""
    play.world.traffic.troubles.clear()


async def deny(what: Mapping[str, Any], stack: StackPlayed, play: Play) -> None:
    """Remove rights from the operator's account."""
    play.world.traffic.denied.update((verb, what["kind"]) for verb in what["verbs"])


async def grant(what: str, stack: StackPlayed, play: Play) -> None:
    """Restore all its permissions by a RoleBinding of that name."""
    play.world.traffic.denied.clear()
    role = {"apiGroup": fake_kinds.ROLE_BINDING.kind.group, "kind": "ClusterRole", "name": "admin"}
    manifest = {"apiVersion": fake_kinds.ROLE_BINDING.kind.api_version, "kind": "RoleBinding", "roleRef": role}
    await create_object({**manifest, "metadata": {"name": what}}, stack, play)


async def restart_controller(what: Any, stack: StackPlayed, play: Play) -> None:
    """Kill the operator and start it again."""
    await play.world.kill_controller()
    await play.world.start_controller()


async def stop_controller(what: Any, stack: StackPlayed, play: Play) -> None:
    """Kill the operator."""
    await play.world.kill_controller()


async def start_controller(what: Any, stack: StackPlayed, play: Play) -> None:
    """Start it; `{tenancy: isolated}`: with that tenancy from now on."""
    if what is not None:
        play.world.tenancy = Mode(what["tenancy"])
    await play.world.start_controller()


async def wait(what: str, stack: StackPlayed, play: Play) -> None:
    """Let time pass: `30s`, `5m`."""
    await play.world.wait(story.parse_duration(what))


async def create_kind(what: str, stack: StackPlayed, play: Play) -> None:
    """Install the CustomResourceDefinition of a kind that is a Probe by another name."""
    made = await play.world.user.create(probe_controller.definition(what))
    play.others.append(Address.of(made))


async def delete_kind(what: str, stack: StackPlayed, play: Play) -> None:
    """Delete the kind with all its objects."""
    await play.world.user.delete(Address.of(probe_controller.definition(what)))


async def create_object(what: Object, stack: StackPlayed, play: Play) -> None:
    """Create an object that belongs to another client: to the one that `by` names, if the object is in `object`."""
    manifest, by = (what["object"], what["by"]) if "object" in what else (what, "")
    metadata = {"namespace": play.world.namespace, **manifest["metadata"]}
    made = await play.world.user.create({**manifest, "metadata": metadata}, by=by)
    play.others.append(Address.of(made))


async def delete_other(what: str, stack: StackPlayed, play: Play) -> None:
    """Delete an object outside of Stacks: `v1/ConfigMap/name`."""
    await play.world.user.delete(play.parse_address(what))


async def change_other(what: Mapping[str, Any], stack: StackPlayed, play: Play) -> None:
    """Change fields of an object outside of Stacks, or of its status."""
    patch: Object = {}
    for path, value in what["set"].items():
        put(patch, path, value)
    address = play.parse_address(what["object"])
    if status := patch.pop("status", None):
        await play.world.user.patch_status(address, status)
    if patch:
        await play.world.user.patch(address, patch)


async def delete_revisions(what: Any, stack: StackPlayed, play: Play) -> None:
    """Delete all stored revisions of the Stack."""
    for raw in await play.world.user.find_revisions(stack.uid):
        await play.world.user.delete(Address.of({"apiVersion": "apps/v1", "kind": "ControllerRevision", **raw}))


async def annotate(what: Mapping[str, Any], stack: StackPlayed, play: Play) -> None:
    """Annotate the Stack, as kubectl annotate does; null removes."""
    await play.world.user.patch(play.address_of(stack.name), {"metadata": {"annotations": dict(what)}})


async def decide(what: str, stack: StackPlayed, play: Play) -> None:
    """Let the webhook stamp the newest StackPlan of the Stack: `approved` or `rejected`, or `forged` by the user."""

    async def look() -> list[str]:
        return [] if await play.world.user.list_plans(stack.uid) else ["no StackPlan exists"]

    # A Stack waits before its plan is made.
    assert await play.world.wait_until(look) == []
    plan = (await play.world.user.list_plans(stack.uid))[-1]
    signer = await play.world.user.get_hasher()
    stamp = stack_plans.make_stamp(plan, what, signer=signer, now=play.world.now())
    await play.world.user.patch(Address.of(plan), {"metadata": {"annotations": {names.ANNOTATION_APPROVAL: stamp}}})


async def hold_events(what: str, stack: StackPlayed, play: Play) -> None:
    """Hold back all events about objects of a kind."""
    play.world.hold_events(what)


async def release_events(what: str, stack: StackPlayed, play: Play) -> None:
    """Deliver the held events."""
    play.world.release_events(what)


async def cluster_away(what: str, stack: StackPlayed, play: Play) -> None:
    """Disconnect another cluster."""
    play.world.set_away(what, is_away=True)


async def cluster_back(what: str, stack: StackPlayed, play: Play) -> None:
    """Reconnect the cluster."""
    play.world.set_away(what, is_away=False)


ACTIONS: Mapping[str, Act] = {
    "apply": apply,
    "edit": edit,
    "remove": remove,
    "tamper": tamper,
    "scale": scale,
    "contend": contend,
    "harass": harass,
    "delete-object": delete_object,
    "delete-stack": delete_stack,
    "fail": fail,
    "recover": recover,
    "deny": deny,
    "grant": grant,
    "restart-controller": restart_controller,
    "stop-controller": stop_controller,
    "start-controller": start_controller,
    "wait": wait,
    "create-kind": create_kind,
    "delete-kind": delete_kind,
    "create-object": create_object,
    "delete-other": delete_other,
    "change-other": change_other,
    "delete-revisions": delete_revisions,
    "annotate": annotate,
    "decide": decide,
    "hold-events": hold_events,
    "release-events": release_events,
    "cluster-away": cluster_away,
    "cluster-back": cluster_back,
}


def put(patch: Object, path: str, value: Any) -> None:
    r"""Put a value at a dotted path; a dot within a key is written as `\.`."""
    *way, last = [key.replace("\0", ".") for key in path.replace("\\.", "\0").split(".")]
    for key in way:
        patch = patch.setdefault(key, {})
    patch[last] = value
