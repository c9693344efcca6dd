"""Forgets revisions that nobody can want to go back to any more."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from hearth.engine import acceptance
from hearth.engine.ports import Revision, StackObject
from hearth.engine.services import Services
from hearth.model.errors import Refused, Unreachable

logger = structlog.get_logger(__name__)


async def trim(stack: StackObject, services: Services, *, needed: Collection[int], limit: int) -> None:
    """Delete the oldest revisions beyond `limit`, those that are needed apart; one that cannot be is tried next time."""
    for revision in find_superfluous(services.home.revisions(stack.uid), needed=needed, limit=limit):
        try:
            await services.home.delete_revision(stack, revision)
        except (Refused, Unreachable) as error:
            logger.warning("cannot delete a revision", stack=stack.uid, revision=revision.name, error=str(error))
            return


def find_superfluous(revisions: Collection[Revision], *, needed: Collection[int], limit: int) -> list[Revision]:
    """The oldest of the revisions that are not needed, so many that `limit` of those are left.

    One that alone remembers a kind that was applied stays: objects of that kind may have to be found again.
    """
    superfluous = sorted((each for each in revisions if each.number not in needed), key=lambda each: each.number)
    chosen = superfluous[: max(0, len(superfluous) - limit)]
    left = [each for each in revisions if each not in chosen]
    return [each for each in chosen if each.kinds <= acceptance.unite(left)]
