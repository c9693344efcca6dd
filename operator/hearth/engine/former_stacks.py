"""Finds the former UIDs of a Stack that was restored from a backup.

The proof is a revision that this operator signed for the former UID with the Stack's namespace and name. The revisions
of a Stack are deleted with it, so a new Stack with the same name takes nothing over.
"""

from __future__ import annotations

import dataclasses

from hearth.engine import verified_revisions
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.services import Services


def find_former_revisions(services: Services, stack: StackObject) -> list[Revision]:
    """Find the revisions signed for deleted Stacks of this kind, namespace and name, by rising number."""
    management_cluster = services.management_cluster
    found: list[Revision] = []
    for uid, revision in management_cluster.find_former_revisions(stack):
        if management_cluster.find_stack(uid) is not None or management_cluster.is_other_shard_uid(uid):
            continue
        if verified_revisions.is_signed(revision, dataclasses.replace(stack, uid=uid), services.hashes):
            found.append(dataclasses.replace(revision, owner=uid))
    return sorted(found, key=lambda revision: revision.number)


def find_former_uids(services: Services, stack: StackObject) -> frozenset[str]:
    """Find the UIDs that the Stack had before it was restored."""
    return frozenset(revision.owner for revision in find_former_revisions(services, stack))
