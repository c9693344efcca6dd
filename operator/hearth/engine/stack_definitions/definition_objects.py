"""Objects of a StackDefinition besides its instances: its CustomResourceDefinition, its roles and its revisions.

The operator signs the CustomResourceDefinition and the roles, to recognize the objects that it created. It reverts
changes to them, and deletes them after the last instance. Revisions are immutable, signed, and in the operator's
namespace. The StackDefinition owns them, so they are deleted with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from hearth.engine import cluster_objects, cooperative_work, verified_revisions
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.definition import restored_objects, revision_builder, stack_revisions, stored_definition
from hearth.engine.ports import ManagementRevisions, StackDefinitionClient
from hearth.engine.verified_revisions import RevisionSet
from hearth.model import errors, names, value_class
from hearth.model.child import Object
from hearth.model.errors import TamperedRevision
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import (
    ADMISSION_POLICY,
    ADMISSION_POLICY_BINDING,
    CLUSTER_ROLE,
    CUSTOM_RESOURCE_DEFINITION,
)
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.stack.options import HISTORY_LIMIT
from hearth.plan.status import conditions
from hearth.template.instances import instance_form, instance_policy, instance_schema
from hearth.template.instances.instance_form import InstanceForm

ALLOWED_BY: Final = "manifests/definitions/roles.yaml, or rbac.definitionRoles of the chart"
"""Manifest and chart value that allow the operator to create roles."""
PURPOSES: Final = {
    CUSTOM_RESOURCE_DEFINITION: "kind of a StackDefinition",
    CLUSTER_ROLE: "role of a StackDefinition",
    ADMISSION_POLICY: "policy of a StackDefinition",
    ADMISSION_POLICY_BINDING: "binding of a policy of a StackDefinition",
}
"""The purpose of the signature by kind."""
POLICIES: Final = (ADMISSION_POLICY, ADMISSION_POLICY_BINDING)
"""Kinds whose objects always belong to the StackDefinition of the same name. The garbage collector deletes them after
the StackDefinition, so a new StackDefinition with that name may still find them. It updates them."""
NOTHING = b"{}"


class NotOwn(Exception):
    """Another object already has the name; it was not created for the StackDefinition."""


@value_class.dataclass(frozen=True, slots=True)
class DefinitionObjects:
    """The kinds of all StackDefinitions, and the roles for their users."""

    client: StackDefinitionClient
    hashes: HashFunction
    checks_authors: bool = True
    """Whether an admission policy checks which accounts and kubeconfigs the authors of instances may choose."""

    async def make(self, raw: Object, *, forms: Iterable[InstanceForm], former: Collection[str] = ()) -> KindState:
        """Create or update the CustomResourceDefinition of a valid StackDefinition, unless it belongs to another owner.

        forms: the revisions that instances may have; former: the UIDs that the StackDefinition had before it was restored
        from a backup.
        """
        metadata, spec = raw["metadata"], raw["spec"]
        uid = metadata["uid"]
        # Create the policy before the kind. Otherwise, an unchecked instance could act with the rights that its author
        # chose.
        if refusal := await self._keep_policy(raw):
            return KindState(refusal=refusal)
        wanted = instance_schema.make_crd(spec, forms=forms)
        try:
            return judge(await self._apply_if_changed(CUSTOM_RESOURCE_DEFINITION, wanted, uid=uid, former=former))
        except NotOwn:
            return KindState(
                refusal=f"a CustomResourceDefinition {metadata['name']} already exists and was not created by this "
                "StackDefinition; choose another kind or group, or delete that one, which deletes all its objects. If an "
                f"operator created it with a key that is lost, set its annotation {names.ANNOTATION_ADOPT} to {uid} "
                "to keep it and its objects"
            )

    async def is_served(self, raw: Object) -> bool:
        """Return whether the kind exists as this operator made it, and is served."""
        live = await self.client.get_object(CUSTOM_RESOURCE_DEFINITION, raw["metadata"]["name"])
        is_own = live is not None and self._is_own(CUSTOM_RESOURCE_DEFINITION, live, raw["metadata"]["uid"])
        return live is not None and is_own and judge(live).is_served

    async def is_of_another(self, raw: Object) -> bool:
        """Return whether an operator with another key made the kind for this StackDefinition."""
        live = await self.client.get_object(CUSTOM_RESOURCE_DEFINITION, raw["metadata"]["name"])
        uid = raw["metadata"]["uid"]
        named = (live["metadata"].get("annotations") or {}).get(names.ANNOTATION_DEFINITION) if live is not None else ""
        return live is not None and named == uid and not self._is_own(CUSTOM_RESOURCE_DEFINITION, live, uid)

    async def delete(self, raw: Object) -> KindState | None:
        """Delete the kind of a StackDefinition without objects; return what the deletion waits for, None once it is
        deleted.

        A kind that another client created is kept. So is a kind that names this definition without a valid signature,
        because its objects are unknown.
        """
        live = await self.client.get_object(CUSTOM_RESOURCE_DEFINITION, raw["metadata"]["name"])
        if live is None:
            return None
        if not self._is_own(CUSTOM_RESOURCE_DEFINITION, live, raw["metadata"]["uid"]):
            annotations = live["metadata"].get("annotations") or {}
            if annotations.get(names.ANNOTATION_DEFINITION) != raw["metadata"]["uid"]:
                return None
            return KindState(
                refusal=(
                    f"CustomResourceDefinition {raw['metadata']['name']} was created for this StackDefinition by an "
                    "operator with another key, which must be running to delete it; or delete it yourself, with all "
                    "its objects"
                )
            )
        await self._delete(CUSTOM_RESOURCE_DEFINITION, live)
        return KindState(waits_for="its CustomResourceDefinition is being deleted")

    async def keep_roles(self, raw: Object, wanted: Sequence[Object], *, former: Collection[str] = ()) -> str:
        """Create or update these roles, and delete other roles of the StackDefinition. Returns the obstacle, or "".

        former: see `make`.
        """
        uid, kept = raw["metadata"]["uid"], [role["metadata"]["name"] for role in wanted]
        name = ""
        try:
            for role in wanted:
                name = role["metadata"]["name"]
                await self._apply_if_changed(CLUSTER_ROLE, role, uid=uid, former=former, parts=("rules",))
            for name in find_recorded_roles(raw):
                live = await self.client.get_object(CLUSTER_ROLE, name) if name not in kept else None
                if live is not None and self._is_own(CLUSTER_ROLE, live, uid):
                    await self._delete(CLUSTER_ROLE, live)
        except NotOwn:
            return (
                f"a ClusterRole {name} already exists and was not created by this StackDefinition; delete it, or "
                "remove spec.roles"
            )
        except errors.ApiStatusError as error:
            if error.code != 403:
                raise
            return f"the operator is not allowed to write the ClusterRole {name} ({error}); allow it with {ALLOWED_BY}"
        return ""

    async def _keep_policy(self, raw: Object) -> str:
        """Make the admission policy of a kind whose instances can choose rights or be protected; return why a choice of
        rights is impossible, or "".

        Without the policy, a protected instance that is deleted still keeps its objects.
        """
        name = raw["metadata"]["name"]
        is_vital = self.checks_authors and bool(instance_policy.find_checked(raw["spec"]))
        hint = "without it, the author of an instance could use any of them; or remove these from spec.options"
        try:
            for kind, wanted in await self._make_policy(raw):
                await self._apply_if_changed(kind, wanted, uid=raw["metadata"]["uid"])
        except NotOwn:
            if not is_vital:
                return ""
            return (
                f"a ValidatingAdmissionPolicy or binding {name} already exists and was not created by this "
                "StackDefinition; delete it"
            )
        except errors.ApiStatusError as error:
            if not is_vital and error.code in (403, 404):
                return ""
            if error.code == 403:
                return (
                    f"the operator is not allowed to write the ValidatingAdmissionPolicy {name}, which restricts the "
                    "users of "
                    f"serviceAccountName and kubeConfig ({error}); grant that with manifests/definitions/rbac.yaml: {hint}"
                )
            if error.code == 404:
                return (
                    "the API server serves no admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy, which restricts "
                    f"the users of serviceAccountName and kubeConfig; Kubernetes 1.30 and newer do: {hint}"
                )
            raise
        return ""

    async def _make_policy(self, raw: Object) -> Sequence[tuple[Kind, Object]]:
        """Make the policy and its binding; a policy that the definition no longer needs denies nothing."""
        metadata = raw["metadata"]
        made = instance_policy.make_policy(raw["spec"], owner=metadata, checks_authors=self.checks_authors)
        if made:
            return made
        live = await self.client.get_object(ADMISSION_POLICY, metadata["name"])
        if live is None or not self._find_owner(ADMISSION_POLICY, live):
            return ()
        return instance_policy.make_policy(raw["spec"], owner=metadata, checks_authors=self.checks_authors, exists=True)

    async def _apply_if_changed(
        self,
        kind: Kind,
        wanted: Object,
        *,
        uid: str,
        former: Collection[str] = (),
        parts: tuple[str, ...] = ("spec",),
    ) -> Object:
        """Return the object as it is now; it is applied unless it is as wanted. Raises NotOwn and ApiStatusError.

        uid: of the StackDefinition; former: see `make`; parts: the fields of the object that are compared.
        """
        name = wanted["metadata"]["name"]
        live = await self.client.get_object(kind, name)
        owner = self._find_owner(kind, live) if live is not None else uid
        is_handed_over = owner in former or (live is not None and is_adopted_by(live, kind, uid))
        if owner != uid and not is_handed_over and not (owner and kind in POLICIES):
            raise NotOwn
        hashed = self.hashes.hash([PURPOSES[kind], wanted])
        if live is not None and owner == uid and is_as_made(live, hashed, wanted, parts):
            return live
        annotations = {
            names.ANNOTATION_DEFINITION: uid,
            names.ANNOTATION_SIGNATURE: self.hashes.sign(PURPOSES[kind], [name, uid]),
            names.ANNOTATION_HASH: hashed,
        }
        return await self.client.apply_object(
            kind, {**wanted, "metadata": {**wanted["metadata"], "annotations": annotations}}
        )

    async def _delete(self, kind: Kind, live: Object) -> None:
        """Delete exactly this object."""
        if "deletionTimestamp" not in live["metadata"]:
            await self.client.delete_object(kind, live)

    def _is_own(self, kind: Kind, live: Object, uid: str) -> bool:
        """Return whether this operator made an object for the StackDefinition with that UID."""
        return self._find_owner(kind, live) == uid

    def _find_owner(self, kind: Kind, live: Object) -> str:
        """Return the UID of the StackDefinition for which this operator made an object, "" for none."""
        annotations = live["metadata"].get("annotations") or {}
        uid = str(annotations.get(names.ANNOTATION_DEFINITION) or "")
        signed = [live["metadata"]["name"], uid]
        signature = annotations.get(names.ANNOTATION_SIGNATURE, "")
        return uid if self.hashes.is_signed(PURPOSES[kind], signed, signature) else ""


def is_adopted_by(live: Object, kind: Kind, uid: str) -> bool:
    """Return whether a client that can write the kind of a StackDefinition hands it over to the one with that UID."""
    annotations = live["metadata"].get("annotations") or {}
    return kind == CUSTOM_RESOURCE_DEFINITION and annotations.get(names.ANNOTATION_ADOPT) == uid


def is_as_made(live: Object, hashed: str, wanted: Object, parts: tuple[str, ...]) -> bool:
    """Whether an object is unchanged since it was written. hashed: of the desired content."""
    annotations = live["metadata"].get("annotations") or {}
    is_same = all(contains(live.get(part), wanted[part]) for part in parts)
    return annotations.get(names.ANNOTATION_HASH) == hashed and is_same


def contains(found: Any, wanted: Any) -> bool:
    """Whether the object contains everything desired; it may also have defaults."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            contains(found.get(key), value) for key, value in wanted.items() if value
        )
    if isinstance(wanted, list):
        is_list = isinstance(found, list) and len(found) == len(wanted)
        return is_list and all(contains(*pair) for pair in zip(found, wanted, strict=True))
    return bool(found == wanted)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KindState:
    """Whether the kind is served, and why not."""

    is_served: bool = False
    refusal: str = ""
    """Why the kind cannot be created; "" if it can be created."""
    waits_for: str = ""
    """Why the kind is not served yet."""


def find_kind(spec: Mapping[str, Any]) -> Kind:
    """Return the kind that a StackDefinition makes."""
    return Kind(
        group=spec["group"],
        version=spec["versions"][0]["name"],
        name=spec["names"]["kind"],
        plural=spec["names"]["plural"],
        namespaced=True,
    )


def find_recorded_roles(raw: Object) -> list[str]:
    """Return the roles that, according to the status, were or are being created."""
    return [str(each) for each in (raw.get("status") or {}).get("roles") or ()]


def make_roles(spec: Mapping[str, Any]) -> list[Object]:
    """Create the roles for users of the kind, aggregated into the standard roles, if the spec requests them.

    No role allows writes of a status, because the operator trusts the status of an instance.
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
    """Return the API server's message about a CustomResourceDefinition."""
    status = live.get("status") or {}
    if "deletionTimestamp" in live["metadata"]:
        return KindState(
            waits_for="its CustomResourceDefinition is being deleted, with all objects, and will be recreated"
        )
    accepted = conditions.find(status, "NamesAccepted")
    if accepted.get("status") == "False":
        return KindState(refusal=f"the API server does not accept the names: {accepted.get('message')}; choose others")
    broken = conditions.find(status, "NonStructuralSchema")
    if broken.get("status") == "True":
        return KindState(refusal=f"the API server does not accept the schema: {broken.get('message')}")
    if conditions.find(status, "Established").get("status") == "True":
        return KindState(is_served=True)
    return KindState(waits_for="the API server does not serve the kind yet")


def make_owner(raw: Object, *, namespace: str) -> StackObject:
    """Return a StackDefinition as the owner of revisions in the operator's namespace."""
    metadata = raw["metadata"]
    return StackObject(
        name=metadata["name"],
        namespace=namespace,
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        resource_version=int(metadata["resourceVersion"]),
        deleting="deletionTimestamp" in metadata,
        finalizers=tuple(metadata.get("finalizers") or ()),
        annotations=metadata.get("annotations") or {},
        author=cluster_objects.find_author(metadata.get("managedFields") or ()),
        kind=names.DEFINITION_KIND,
        packed_spec=NOTHING,
        packed_status=NOTHING,
    )


@value_class.dataclass(frozen=True, slots=True)
class DefinitionRevisions:
    """The revisions of all StackDefinitions."""

    management_cluster: ManagementRevisions
    hashes: HashFunction

    def load(self, owner_stack: StackObject) -> RevisionSet:
        """Load the revisions of a StackDefinition, sorted by whether they count."""
        return verified_revisions.load(self.management_cluster, self.hashes, owner_stack)

    def find_former(self, owner_stack: StackObject) -> list[Revision]:
        """Find the revisions that a StackDefinition had under other UIDs, before it was restored from a backup.

        The revisions of a deleted StackDefinition have an owner until the garbage collector deletes them.
        """
        found: list[Revision] = []
        for uid, revision in self.management_cluster.find_former_revisions(owner_stack):
            former = dataclasses.replace(owner_stack, uid=uid)
            if revision.owner != uid and verified_revisions.is_signed(revision, former, self.hashes):
                found.append(dataclasses.replace(revision, owner=uid))
        return sorted(found, key=lambda revision: revision.number)

    async def take_back(self, owner_stack: StackObject) -> None:
        """Store the revisions of a restored StackDefinition for its present UID, with their numbers."""
        if self.load(owner_stack).verified:
            return
        for revision in self.find_former(owner_stack):
            await restored_objects.copy_revision(self.management_cluster, self.hashes, owner_stack, revision)

    async def find_orphaned(self, owner_stack: StackObject) -> bool:
        """Return whether the deletion of a StackDefinition was requested with `--cascade=orphan`."""
        return await verified_revisions.find_orphaned(self.management_cluster, self.hashes, owner_stack)

    async def delete_all(self, owner_stack: StackObject) -> None:
        """Delete the revisions of a StackDefinition that the garbage collector leaves."""
        await verified_revisions.delete_all(self.management_cluster, self.hashes, owner_stack)

    def sort(self, owner_stack: StackObject, revisions: Iterable[Revision]) -> RevisionSet:
        """Sort revisions of a StackDefinition, which were just read, by whether they count."""
        return verified_revisions.sort(revisions, self.hashes, owner_stack)

    async def read(self, owner_stack: StackObject, revision: Revision) -> InstanceForm:
        """Return the parts of a revision that instances need. Raises TamperedRevision if its content is not as it was stored."""
        stored = await self.management_cluster.get_definition(owner_stack, revision)
        if not stored_definition.is_as_stored(stored, revision.hash, self.hashes.of_stack(owner_stack.uid)):
            raise TamperedRevision(verified_revisions.explain(revision))
        return await make_form(owner_stack.name, revision.number, stored)

    async def store(self, owner_stack: StackObject, spec: Object) -> InstanceForm:
        """Store the spec as a revision, unless the newest one has the same content. Raises TamperedRevision.

        A content that an earlier revision has is a new revision too, so that the newest is always the wanted one.
        """
        content = instance_form.make_content(spec)
        hashed = stored_definition.hash_record(content, self.hashes.of_stack(owner_stack.uid))
        known = self.load(owner_stack)
        newest = known.verified[-1] if known.verified else None
        if newest is not None and newest.hash == hashed:
            return await make_form(owner_stack.name, newest.number, content)
        number = known.last_number + 1
        revision = Revision(
            name=revision_builder.name_revision(owner_stack, f"{hashed} {number}"),
            number=number,
            hash=hashed,
            kinds=frozenset(),
            namespace=owner_stack.namespace,
            owner=owner_stack.uid,
        )
        signed = verified_revisions.sign(revision, owner_stack, self.hashes)
        created = await self.management_cluster.create_revision(owner_stack, signed, content)
        if created.hash != hashed or not verified_revisions.is_verified(created, owner_stack, self.hashes):
            raise TamperedRevision(verified_revisions.explain(created))
        return await make_form(owner_stack.name, created.number, content)

    async def write_evidence(self, owner_stack: StackObject, number: int, evidence: str) -> None:
        """Store the evidence that the gates of a rollout have with its revision."""
        for revision in self.load(owner_stack).verified:
            if revision.number == number:
                await self.management_cluster.annotate_revision(
                    owner_stack, revision, names.ANNOTATION_EVIDENCE, evidence
                )

    async def truncate(self, owner_stack: StackObject, *, needed: Collection[int]) -> list[int]:
        """Delete the oldest unneeded revisions that exceed the history limit of a Stack; return their numbers."""
        expired = stack_revisions.find_expired(self.load(owner_stack).verified, needed=needed, limit=HISTORY_LIMIT)
        for revision in expired:
            await self.management_cluster.delete_revision(owner_stack, revision)
        return [each.number for each in expired]


async def make_form(definition: str, number: int, content: Object) -> InstanceForm:
    """Make the form of a revision. content: as `instance_form.make_content` returns it.

    Checking the types of its outputs can take most of a second.
    """
    return await cooperative_work.finish(instance_form.make_form_in_pieces(definition, number, content))
