"""Revisions of StackDefinitions: immutable, signed, in the operator's namespace; owned by the StackDefinition, which they end with."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hearth.engine import cluster_objects, verified_revisions
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.definition import revision_builder, stack_revisions, stored_definition
from hearth.engine.ports import ManagementCluster
from hearth.engine.verified_revisions import RevisionSet
from hearth.model import names, value_class
from hearth.model.child import Object
from hearth.model.errors import TamperedRevision
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.stack.options import HISTORY_LIMIT
from hearth.template.instances import instance_form
from hearth.template.instances.instance_form import InstanceForm

NOTHING = b"{}"


def make_owner(raw: Object, *, namespace: str) -> StackObject:
    """Return a StackDefinition as the owner of revisions in a namespace, that of the operator."""
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

    management_cluster: ManagementCluster
    hashes: HashFunction

    def load(self, owner_stack: StackObject) -> RevisionSet:
        """Load the revisions of a StackDefinition, sorted by whether they count."""
        return verified_revisions.load(self.management_cluster, self.hashes, owner_stack)

    def sort(self, owner_stack: StackObject, revisions: Iterable[Revision]) -> RevisionSet:
        """Sort revisions of a StackDefinition, which were just read, by whether they count."""
        return verified_revisions.sort(revisions, self.hashes, owner_stack)

    async def read(self, owner_stack: StackObject, revision: Revision) -> InstanceForm:
        """Return what instances need of a revision. Raises TamperedRevision if its content is not as it was stored."""
        stored = await self.management_cluster.get_definition(owner_stack, revision)
        if not stored_definition.is_as_stored(stored, revision.hash, self.hashes.of_stack(owner_stack.uid)):
            raise TamperedRevision(verified_revisions.explain(revision))
        return instance_form.make_form(owner_stack.name, revision.number, stored)

    async def store(self, owner_stack: StackObject, spec: Object) -> InstanceForm:
        """Store the spec as a revision, unless the newest one has the same content. Raises TamperedRevision.

        A content that an earlier revision has is a new revision too, so that the newest is always the wanted one.
        """
        content = instance_form.make_content(spec)
        hashed = stored_definition.hash_record(content, self.hashes.of_stack(owner_stack.uid))
        known = self.load(owner_stack)
        newest = known.verified[-1] if known.verified else None
        if newest is not None and newest.hash == hashed:
            return instance_form.make_form(owner_stack.name, newest.number, content)
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
        return instance_form.make_form(owner_stack.name, created.number, content)

    async def truncate(self, owner_stack: StackObject, *, needed: Collection[int]) -> list[int]:
        """Delete the oldest unneeded revisions beyond the number that a Stack keeps; return their numbers."""
        expired = stack_revisions.find_expired(self.load(owner_stack).verified, needed=needed, limit=HISTORY_LIMIT)
        for revision in expired:
            await self.management_cluster.delete_revision(owner_stack, revision)
        return [each.number for each in expired]
