"""The CustomResourceDefinition of one StackDefinition, and its roles: made, kept as they are, deleted last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hearth.engine.stack_definitions.definition_objects import DefinitionObjects, NotOwn
from hearth.model import errors, names, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import CLUSTER_ROLE, CUSTOM_RESOURCE_DEFINITION
from hearth.plan.status import conditions
from hearth.template.instances import instance_schema
from hearth.template.instances.instance_form import InstanceForm

ALLOWED_BY: Final = "manifests/definitions/roles.yaml, or rbac.definitionRoles of the chart"
"""What lets the operator make roles."""


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
    """The kinds of all StackDefinitions, and the roles for their users."""

    objects: DefinitionObjects

    async def make(self, raw: Object, *, forms: Iterable[InstanceForm]) -> KindState:
        """Make the kind of a StackDefinition without mistakes as its spec says, unless it is another's.

        forms: the revisions that instances may have.
        """
        metadata, spec = raw["metadata"], raw["spec"]
        wanted = instance_schema.make_crd(metadata["name"], spec, forms=forms)
        try:
            return judge(await self.objects.keep(CUSTOM_RESOURCE_DEFINITION, wanted, uid=metadata["uid"]))
        except NotOwn:
            return KindState(
                refusal=f"a CustomResourceDefinition {metadata['name']} exists that this StackDefinition did not make; "
                "choose another kind or group, or delete that one, which deletes all its objects"
            )

    async def is_served(self, raw: Object) -> bool:
        """Return whether the kind exists as this operator made it, and is served."""
        live = await self.objects.find(CUSTOM_RESOURCE_DEFINITION, raw["metadata"]["name"])
        is_own = live is not None and self.objects.is_own(CUSTOM_RESOURCE_DEFINITION, live, raw["metadata"]["uid"])
        return live is not None and is_own and judge(live).is_served

    async def is_of_another(self, raw: Object) -> bool:
        """Return whether an operator with another key made the kind for this StackDefinition."""
        live = await self.objects.find(CUSTOM_RESOURCE_DEFINITION, raw["metadata"]["name"])
        uid = raw["metadata"]["uid"]
        named = (live["metadata"].get("annotations") or {}).get(names.ANNOTATION_DEFINITION) if live is not None else ""
        return live is not None and named == uid and not self.objects.is_own(CUSTOM_RESOURCE_DEFINITION, live, uid)

    async def delete(self, raw: Object) -> KindState | None:
        """Delete the kind of a StackDefinition without objects; return what that waits for, None once it is gone.

        One that another client made stays, and so does one that names this definition without a valid signature: its objects
        are not known.
        """
        live = await self.objects.find(CUSTOM_RESOURCE_DEFINITION, raw["metadata"]["name"])
        if live is None:
            return None
        if not self.objects.is_own(CUSTOM_RESOURCE_DEFINITION, live, raw["metadata"]["uid"]):
            annotations = live["metadata"].get("annotations") or {}
            if annotations.get(names.ANNOTATION_DEFINITION) != raw["metadata"]["uid"]:
                return None
            return KindState(
                refusal=f"CustomResourceDefinition {raw['metadata']['name']} was made for this StackDefinition by an operator "
                "with another key, which must be running to delete it; or delete it yourself, with all its objects"
            )
        await self.objects.delete(CUSTOM_RESOURCE_DEFINITION, live)
        return KindState(waits_for="its CustomResourceDefinition is being deleted")

    async def keep_roles(self, raw: Object, wanted: Sequence[Object]) -> str:
        """Make these roles, and delete others that were made for a StackDefinition; return what hinders that, "" for nothing."""
        uid, kept = raw["metadata"]["uid"], [role["metadata"]["name"] for role in wanted]
        name = ""
        try:
            for role in wanted:
                name = role["metadata"]["name"]
                await self.objects.keep(CLUSTER_ROLE, role, uid=uid, parts=("rules",))
            for name in find_recorded_roles(raw):
                live = await self.objects.find(CLUSTER_ROLE, name) if name not in kept else None
                if live is not None and self.objects.is_own(CLUSTER_ROLE, live, uid):
                    await self.objects.delete(CLUSTER_ROLE, live)
        except NotOwn:
            return (
                f"a ClusterRole {name} exists that this StackDefinition did not make; delete it, or remove spec.roles"
            )
        except errors.ApiStatusError as error:
            if error.code != 403:
                raise
            return f"the operator may not write the ClusterRole {name} ({error}); allow it with {ALLOWED_BY}"
        return ""


def find_recorded_roles(raw: Object) -> list[str]:
    """Return the roles that the status says were made, or are being made."""
    return [str(each) for each in (raw.get("status") or {}).get("roles") or ()]


def make_roles(spec: Mapping[str, Any]) -> list[Object]:
    """Make the roles for users of the kind, if there are to be any, which belong to the standard roles.

    None may write a status, by which an instance tells how it is.
    """
    if not spec.get("roles"):
        return []
    plural = spec["names"]["plural"]
    scale = [f"{plural}/scale"] if spec.get("scale") else []
    view = [[plural, f"{plural}/status", *scale], ["get", "list", "watch"]]
    edit = [[plural, *scale], ["create", "update", "patch", "delete", "deletecollection"]]
    return [
        {
            "apiVersion": CLUSTER_ROLE.api_version,
            "kind": CLUSTER_ROLE.name,
            "metadata": {
                "name": f"{plural}-{word}",
                "labels": {f"rbac.authorization.k8s.io/aggregate-to-{word}": "true"},
            },
            "rules": [{"apiGroups": [spec["group"]], "resources": resources, "verbs": verbs}],
        }
        for word, (resources, verbs) in (("view", view), ("edit", edit))
    ]


def judge(live: Object) -> KindState:
    """Return what the API server says of a CustomResourceDefinition."""
    status = live.get("status") or {}
    if "deletionTimestamp" in live["metadata"]:
        return KindState(waits_for="its CustomResourceDefinition is being deleted, with all objects; it is made again")
    accepted = conditions.find(status, "NamesAccepted")
    if accepted.get("status") == "False":
        return KindState(refusal=f"the API server does not accept the names: {accepted.get('message')}; choose others")
    broken = conditions.find(status, "NonStructuralSchema")
    if broken.get("status") == "True":
        return KindState(refusal=f"the API server does not accept the schema: {broken.get('message')}")
    if conditions.find(status, "Established").get("status") == "True":
        return KindState(is_served=True)
    return KindState(waits_for="the API server does not serve the kind yet")
