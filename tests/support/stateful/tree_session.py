"""A session whose Stack has collections, groups, nested Stacks, objects in another cluster, and snapshots.

The model still describes the Stack; this module adds the checks of everything below it.
"""

from __future__ import annotations

from collections.abc import Iterator

from hearth.model import names
from hearth.model.child import Object
from support.checks import expectations, group_expansion, invariants, template_verification
from support.server import fake_kinds
from support.stateful import nested_manifests, random_templates
from support.stateful.session_state import Ordered
from support.stateful.stack_session import Session
from support.stories.stack_manifests import STACK
from support.stories.world import Address

SCALER = "keda"
SNAPSHOTS = 4
"""Maximum number of snapshots at a time."""


class TreeSession(Session):
    """The world, the model, and the actions so far."""

    def __init__(self, *, delay: float | None) -> None:
        """delay: as in the base class."""
        self.scaled: dict[str, int] = {}
        """Sizes of groups that an autoscaler wrote, by UID, while no template can have changed them since."""
        self._sizes: dict[str, tuple[str, int]] = {}
        """The kinds and sizes in the template, by name."""
        self._names = 0
        super().__init__(delay=delay)

    async def _begin(self, delay: float | None, *, is_attacked: bool) -> None:
        await super()._begin(delay, is_attacked=is_attacked)
        await self.world.add_cluster(nested_manifests.CLUSTER)

    # ------------------------------------------------------------ contents

    def find_below(self) -> list[Object]:
        """Every object of a Stack or group in either cluster, by name."""
        servers = (self.world.server, *(each.server for each in self.world.others.values()))
        found = [
            raw
            for server in servers
            for kind, raw in server.everything()
            if kind != fake_kinds.CONTROLLER_REVISION.kind and invariants.whose(raw)[0]
        ]
        return sorted(found, key=lambda raw: str(raw["metadata"]["name"]))

    def find_targets(self) -> list[Object]:
        """As the base class says; of those that are not held together by a template of their own, all."""
        return self.find_below()

    def find_nested(self) -> list[Object]:
        """The groups and nested stacks, by name."""
        return [raw for raw in self.find_below() if raw["kind"] in names.STACK_KINDS]

    def find_snapshots(self) -> list[Object]:
        """The snapshots of this Stack."""
        return list(self.world.server.list_all(fake_kinds.STACK_SNAPSHOT.kind))

    # ------------------------------------------------------------ the user

    def say(self) -> None:
        """See the base class; a changed size in the template replaces a scaled one."""
        spec = (self.find_stack() or {"spec": {}})["spec"]
        if self.ordered.rollback or spec.get("rollback") or find_sizes(self.ordered) != self._sizes:
            self.scaled.clear()
        self._sizes = find_sizes(self.ordered)
        super().say()

    def create(self, ordered: Ordered) -> None:
        """As the base class says."""
        self.scaled.clear()
        self._sizes = find_sizes(ordered)
        super().create(ordered)

    def scale(self, number: int, replicas: int) -> None:
        """Write the size of a group as an autoscaler does."""
        groups = [raw for raw in self.find_nested() if raw["kind"] == names.GROUP_KIND]
        groups = [raw for raw in groups if "deletionTimestamp" not in raw["metadata"]]
        if not groups:
            return
        found = groups[number % len(groups)]
        is_settled = self.since.is_clean and not self.since.edits
        self.since.others += 1
        self.tell(scale={"object": found["metadata"]["name"], "replicas": replicas})
        self.run(self.world.user.scale(Address.of(found), replicas, manager=SCALER))
        self.scaled.pop(found["metadata"]["uid"], None)
        if is_settled:
            self.scaled[found["metadata"]["uid"]] = replicas

    def mark(self, number: int, *, by_name: bool) -> None:
        """Mark an object anywhere in the tree as unhealthy. by_name: with a HealthMark, otherwise on the object."""
        found = self.find_child(number)
        if found is None or found["kind"] == random_templates.CLAIM:
            return
        self.since.others += 1
        uid, resource = invariants.whose(found)
        self.tell(mark={"object": found["metadata"]["name"], "by-name": by_name})
        if by_name and uid == self.uid:
            self._names += 1
            spec = {"stackName": STACK.name, "resource": resource, "markUnhealthy": True}
            self.run(self.world.user.create(self._make("HealthMark", spec)))
            return
        patch = {"metadata": {"annotations": {names.ANNOTATION_UNHEALTHY: "as marked"}}}
        self.run(self.world.user.patch(Address.of(found), patch))

    def _make(self, kind: str, spec: Object) -> Object:
        metadata = {"name": f"{kind.lower()}-{self._names}", "namespace": STACK.namespace}
        return {"apiVersion": nested_manifests.API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}

    def take_snapshot(self) -> None:
        """Create a StackSnapshot, or delete the first if there are many."""
        self.since.others += 1
        found = self.find_snapshots()
        if len(found) >= SNAPSHOTS:
            self.tell(delete_snapshot=found[0]["metadata"]["name"])
            self.run(self.world.user.delete(Address.of(found[0])))
            return
        self._names += 1
        self.tell(snapshot=self._names)
        self.run(self.world.user.create(self._make("StackSnapshot", {"stackName": STACK.name})))

    def set_away(self, *, is_away: bool) -> None:
        """Disconnect or reconnect the other cluster."""
        if self.world.others[nested_manifests.CLUSTER].is_away != is_away:
            self.since.others += 1
            self.tell(**{f"cluster-{'away' if is_away else 'back'}": nested_manifests.CLUSTER})
            self.world.set_away(nested_manifests.CLUSTER, is_away=is_away)

    # ------------------------------------------------------------ judging

    def rest(self) -> None:
        """See the base class; without the other cluster, nothing comes to rest."""
        self.set_away(is_away=False)
        super().rest()

    async def _compare(self) -> list[str]:
        """The differences from the model, the Stack first."""
        if wrong := await super()._compare():
            return wrong
        stack = self.find_stack()
        if stack is None:
            return [f"{raw['metadata']['name']} is left" for raw in self.find_below()]
        if self.is_deleting or stack["spec"].get("paused"):
            return []
        wrong = [text for raw in self.find_nested() for text in self._judge_nested(raw)]
        if str(stack["status"]["phase"]).endswith("Complete"):
            wrong += [*self._judge_marks(), *self._judge_snapshots(stack)]
        return wrong

    def _judge_nested(self, nested: Object) -> Iterator[str]:
        """Check that groups and nested Stacks are complete, and all of their objects exist."""
        metadata, status = nested["metadata"], expectations.status_of(nested)
        name, uid = metadata["name"], metadata["uid"]
        if "deletionTimestamp" in metadata:
            yield f"{name} is still being deleted"
            return
        ready = expectations.find_condition(nested, "Ready")
        if status.get("observedGeneration") != metadata["generation"] or ready.get("status") != "True":
            yield f"{name} is {status.get('phase')}: {ready.get('message')}"
            return
        if self.scaled.get(uid, nested["spec"].get("replicas")) != nested["spec"].get("replicas"):
            yield f"{name} was scaled to {self.scaled[uid]}, and has the size {nested['spec']['replicas']}"
        spec = group_expansion.expand(nested["spec"]) if nested["kind"] == names.GROUP_KIND else nested["spec"]
        own = expectations.by_resource([raw for raw in self.find_below() if invariants.whose(raw)[0] == uid])
        yield from (f"{name}: {text}" for text in template_verification.find_wrong(spec, nested, own))

    def _judge_marks(self) -> Iterator[str]:
        """Marked objects have been replaced."""
        for raw in self.find_below():
            if names.ANNOTATION_UNHEALTHY in invariants.annotations_of(raw):
                yield f"{raw['metadata']['name']} is marked, and still there"

    def _judge_snapshots(self, stack: Object) -> Iterator[str]:
        """Every snapshot of this Stack contains the volumes it lists."""
        if expectations.find_condition(stack, "Ready").get("status") != "True":
            return
        kept = self.revisions()
        for raw in self.find_snapshots():
            status, name = expectations.status_of(raw), raw["metadata"]["name"]
            if status.get("stackUID", self.uid) != self.uid:
                continue
            if status.get("phase") == "InProgress":
                yield f"{name} waits, and the Stack is complete: {expectations.find_condition(raw, 'Ready')}"
            elif status.get("phase") == "Complete" and status["revision"] not in kept:
                yield f"{name} names revision {status['revision']}, and there are {sorted(kept)}"


def find_sizes(ordered: Ordered) -> dict[str, tuple[str, int]]:
    """The kinds and sizes in the template, by name."""
    return {name: (draft.kind, draft.size) for name, draft in ordered.drafts.items()}
