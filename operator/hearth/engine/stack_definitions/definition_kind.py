"""The CustomResourceDefinition of one StackDefinition: made, kept as it is, distinguished from those of others, deleted last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.engine.stack_definition_ports import StackDefinitionClient
from hearth.model import names, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.rollouts import instance_state
from hearth.template.instances import instance_schema

PURPOSE = "kind of a StackDefinition"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KindState:
    """What became of the kind."""

    is_served: bool = False
    refusal: str = ""
    """Why it cannot be made; "" if it can."""
    waits_for: str = ""
    """What it waits for, until it is served."""


def find_kind(spec: Mapping[str, Any]) -> Kind:
    """Return the kind that a StackDefinition makes."""
    return Kind(
        group=spec["group"],
        version=spec["versions"][0]["name"],
        name=spec["names"]["kind"],
        plural=spec["names"]["plural"],
        namespaced=True,
    )


@value_class.dataclass(frozen=True, slots=True)
class DefinitionKinds:
    """The kinds of all StackDefinitions."""

    client: StackDefinitionClient
    hashes: HashFunction

    async def make(self, raw: Object) -> KindState:
        """Make the kind of a StackDefinition without mistakes as its spec says, unless it is another's."""
        metadata, spec = raw["metadata"], raw["spec"]
        live = await self.client.get_crd(metadata["name"])
        if live is not None and not self.is_own(live, metadata["uid"]):
            return KindState(
                refusal=f"a CustomResourceDefinition {metadata['name']} exists that this StackDefinition did not make; "
                "choose another kind or group, or delete that one, which deletes all its objects"
            )
        wanted = instance_schema.make_crd(metadata["name"], spec)
        hashed = self.hashes.hash([PURPOSE, wanted])
        if live is None or not is_as_made(live, hashed, wanted):
            annotations = {
                names.ANNOTATION_DEFINITION: metadata["uid"],
                names.ANNOTATION_SIGNATURE: self._sign(metadata["name"], metadata["uid"]),
                names.ANNOTATION_HASH: hashed,
            }
            live = await self.client.apply_crd(
                {**wanted, "metadata": {**wanted["metadata"], "annotations": annotations}}
            )
        return judge(live)

    async def delete(self, raw: Object) -> KindState | None:
        """Delete the kind of a StackDefinition without objects; return what that waits for, None once it is gone.

        One that another client made stays, and so does one that names this definition without a valid signature: its objects
        are not known.
        """
        live = await self.client.get_crd(raw["metadata"]["name"])
        if live is None:
            return None
        if not self.is_own(live, raw["metadata"]["uid"]):
            annotations = live["metadata"].get("annotations") or {}
            if annotations.get(names.ANNOTATION_DEFINITION) != raw["metadata"]["uid"]:
                return None
            return KindState(
                refusal=f"CustomResourceDefinition {raw['metadata']['name']} was made for this StackDefinition by an operator "
                "with another key, which must be running to delete it; or delete it yourself, with all its objects"
            )
        if "deletionTimestamp" not in live["metadata"]:
            await self.client.delete_crd(live)
        return KindState(waits_for="its CustomResourceDefinition is being deleted")

    def is_own(self, live: Object, uid: str) -> bool:
        """Return whether this operator made a CustomResourceDefinition for the StackDefinition with that UID."""
        annotations = live["metadata"].get("annotations") or {}
        signature = annotations.get(names.ANNOTATION_SIGNATURE, "")
        named = annotations.get(names.ANNOTATION_DEFINITION)
        return named == uid and self.hashes.is_signed(PURPOSE, [live["metadata"]["name"], uid], signature)

    def _sign(self, name: str, uid: str) -> str:
        return self.hashes.sign(PURPOSE, [name, uid])


def is_as_made(live: Object, hashed: str, wanted: Object) -> bool:
    """Return whether a CustomResourceDefinition is as it was made last. hashed: of what is wanted."""
    annotations = live["metadata"].get("annotations") or {}
    return annotations.get(names.ANNOTATION_HASH) == hashed and contains(live["spec"], wanted["spec"])


def contains(found: Any, wanted: Any) -> bool:
    """Return whether all that is wanted is in what was found, which may have defaults beside it."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            contains(found.get(key), value) for key, value in wanted.items() if value
        )
    if isinstance(wanted, list):
        is_list = isinstance(found, list) and len(found) == len(wanted)
        return is_list and all(contains(*pair) for pair in zip(found, wanted, strict=True))
    return bool(found == wanted)


def judge(live: Object) -> KindState:
    """Return what the API server says of a CustomResourceDefinition."""
    status = live.get("status") or {}
    if "deletionTimestamp" in live["metadata"]:
        return KindState(waits_for="its CustomResourceDefinition is being deleted, with all objects; it is made again")
    accepted = instance_state.find_condition(status, "NamesAccepted")
    if accepted.get("status") == "False":
        return KindState(refusal=f"the API server does not accept the names: {accepted.get('message')}; choose others")
    broken = instance_state.find_condition(status, "NonStructuralSchema")
    if broken.get("status") == "True":
        return KindState(refusal=f"the API server does not accept the schema: {broken.get('message')}")
    if instance_state.find_condition(status, "Established").get("status") == "True":
        return KindState(is_served=True)
    return KindState(waits_for="the API server does not serve the kind yet")
