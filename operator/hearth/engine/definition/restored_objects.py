"""Signs the objects and revisions of a Stack again after it was restored from a backup, for its new UID.

Changes only metadata; the ordinary reconcile then continues with the objects.
"""

from __future__ import annotations

import dataclasses

import structlog

from hearth.engine import former_stacks, verified_revisions
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.definition import revision_builder, stored_definition
from hearth.engine.ports import ManagementRevisions, WorkloadCluster
from hearth.engine.services import Services
from hearth.model import names, sharding, signatures
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError, TamperedRevision
from hearth.model.kinds import Kind
from hearth.model.signatures import Signer
from hearth.model.text import enumeration
from hearth.plan.ownership.keyed_hash import HashFunction

logger = structlog.get_logger(__name__)

REASON = "ObjectsTakenBack"
"""The reason of the Event."""


async def take_back(services: Services, stack: StackObject, cluster: WorkloadCluster) -> None:
    """Sign all objects of the Stack's former UIDs again, for the current UID. Raises ApiStatusError, Unreachable.

    Each write can be repeated: an object with the new signature is not found again. cluster: as the account of the
    Stack accesses it.
    """
    revisions = former_stacks.find_former_revisions(services, stack)
    if not revisions or verified_revisions.load(services.management_cluster, services.hashes, stack).verified:
        return
    await services.management_cluster.add_finalizer(stack)
    kinds = revision_builder.find_served_kinds(cluster, verified_revisions.merge_kinds(revisions))
    taken: list[str] = []
    for uid in sorted({revision.owner for revision in revisions}):
        for kind in kinds:
            taken += await _take_back_kind(services, stack, cluster, kind=kind, uid=uid)
    for revision in revisions:
        await copy_revision(services.management_cluster, services.hashes, stack, revision)
    if taken:
        message = (
            f"took back {enumeration.enumerate_first(sorted(taken), count=len(taken))}, which belonged to this Stack "
            f"before it was restored under another UID"
        )
        await services.management_cluster.emit_event(stack, type_="Normal", reason=REASON, message=message)


async def _take_back_kind(
    services: Services, stack: StackObject, cluster: WorkloadCluster, *, kind: Kind, uid: str
) -> list[str]:
    """Sign the objects of one kind again; return their names."""
    boundary, taken = services.find_boundary(stack), []
    for child in await cluster.list_children(kind, uid, namespace=stack.namespace):
        if child.is_identified and not child.deleting and not boundary.find_denial(child.ref):
            await cluster.change(child.ref, make_patch(child, stack, services.hashes), kind=kind)
            taken.append(str(child.ref))
    return taken


def make_patch(child: Child, stack: StackObject, signer: Signer) -> Object:
    """Make the merge patch that signs a proven object of the former Stack for its successor, and changes nothing else."""
    requires = (child.fields["metadata"].get("annotations") or {}).get(names.ANNOTATION_REQUIRES, "")
    identity = names.identity(
        stack_uid=stack.uid,
        group=child.ref.group,
        kind=child.ref.kind,
        namespace=child.ref.namespace,
        name=child.ref.name,
    )
    signature = signatures.write(
        identity, resource=child.resource, incarnation=child.incarnation, requires=requires, signer=signer
    )
    return {
        "metadata": {
            "uid": child.uid,
            "resourceVersion": str(child.resource_version),
            "labels": {names.LABEL_STACK_UID: stack.uid, names.LABEL_BUCKET: sharding.label_of(stack.uid)},
            "annotations": {names.ANNOTATION_IDENTITY: identity, names.ANNOTATION_SIGNATURE: signature},
        }
    }


async def copy_revision(
    management_cluster: ManagementRevisions, hashes: HashFunction, stack: StackObject, former: Revision
) -> None:
    """Store a revision of the former Stack as one of its successor, which owns both from then on.

    The former one stays as the proof for objects that are restored later.
    """
    await management_cluster.adopt_revision(stack, former)
    try:
        stored = await management_cluster.get_definition(stack, former)
    except (TamperedRevision, ApiStatusError) as error:
        if isinstance(error, ApiStatusError) and not error.is_not_found:
            raise
        logger.warning("a revision cannot be reclaimed", stack=stack.uid, revision=former.name, error=str(error))
        return
    if not stored_definition.is_as_stored(stored, former.hash, hashes.of_stack(former.owner)):
        return
    hashed = stored_definition.hash_record(stored, hashes.of_stack(stack.uid))
    present = [each.hash for each in management_cluster.revisions(stack.uid)]
    if hashed not in present:
        revision = dataclasses.replace(
            former, name=revision_builder.name_revision(stack, hashed), hash=hashed, owner=stack.uid, parts=0
        )
        signed = verified_revisions.sign(revision, stack, hashes)
        await management_cluster.create_revision(stack, signed, stored)
