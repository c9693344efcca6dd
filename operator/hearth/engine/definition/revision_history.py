"""Deletion of revisions that no rollback can need anymore."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from hearth.engine import verified_revisions, verified_snapshots
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.services import Services
from hearth.model.errors import ApiStatusError, Unreachable

logger = structlog.get_logger(__name__)


async def truncate(stack: StackObject, services: Services, *, needed: Collection[int], limit: int) -> None:
    """Delete the oldest revisions beyond the current one and `limit` others; failures are retried next time.

    Those that StackSnapshots pin stay, and do not count. Nothing is deleted before all StackSnapshots are known.
    """
    if len(services.management_cluster.revisions(stack.uid)) <= limit + 1:
        return
    pinned = verified_snapshots.find_pinned(services, stack)
    if pinned is None:
        return
    revisions = verified_revisions.load(services.management_cluster, services.hashes, stack).verified
    free = [each for each in revisions if each.number in needed or each.number not in pinned]
    for revision in find_expired(free, needed=needed, limit=limit):
        try:
            await services.management_cluster.delete_revision(stack, revision)
        except (ApiStatusError, Unreachable) as error:
            logger.warning("cannot delete a revision", stack=stack.uid, revision=revision.name, error=str(error))
            return


def find_expired(revisions: Collection[Revision], *, needed: Collection[int], limit: int) -> list[Revision]:
    """Return the oldest unneeded revisions beyond the current one and `limit` others.

    needed: numbers of the current revision and of all protected ones. The only revision that lists an applied kind
    stays, because its objects may have to be found.
    """
    superfluous = sorted((each for each in revisions if each.number not in needed), key=lambda each: each.number)
    chosen = superfluous[: max(0, len(revisions) - 1 - limit)]
    left = [each for each in revisions if each not in chosen]
    return [each for each in chosen if each.kinds <= verified_revisions.merge_kinds(left)]
