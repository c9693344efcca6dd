"""The stored revisions of one Stack, as its definition sync uses them.

Must not know which of them is active, nor which the user wants.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from hearth.engine import verified_revisions
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.definition import revision_history
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.engine.definition.revision_numbers import RevisionNumbers
from hearth.engine.definition.target_tracker import TargetTracker
from hearth.engine.services import Services
from hearth.engine.verified_revisions import RevisionSet
from hearth.template.blueprint import Blueprint, Definition


@dataclass(slots=True)
class StackRevisions:
    """Reads, stores and deletes the revisions of one Stack."""

    uid: str
    services: Services
    builder: RevisionBuilder
    targets: TargetTracker
    tampered: str = ""
    """Describes stored revisions that are not as this operator wrote them; "" for none."""
    _numbers: RevisionNumbers = field(default_factory=RevisionNumbers, repr=False)
    _present: int | None = None
    """The revision with the definition in the spec, if it was accepted before."""

    def load(self, stack: StackObject) -> RevisionSet:
        """Return the revisions, and report those that are tampered with."""
        known = self.builder.load_revisions(stack)
        self.note_tampered(known.tampered)
        return known

    def note_tampered(self, found: Collection[Revision]) -> None:
        """Report stored revisions that are not as this operator wrote them, and no others."""
        self.tampered = verified_revisions.explain_all(found)

    def note_present(self, known: RevisionSet, hashed: str) -> None:
        """Record the revision with the definition in the spec. hashed: the hash of that definition."""
        self._present = next((each.number for each in known.verified if each.hash == hashed), None)

    async def store(self, stack: StackObject, definition: Definition, blueprint: Blueprint, *, hashed: str) -> Revision:
        """Store an accepted definition as a revision: see `RevisionBuilder.store`."""
        self._numbers.take(self.targets.needed)
        return await self.builder.store(stack, definition, blueprint, hashed=hashed, numbers=self._numbers)

    async def truncate(self, *, limit: int) -> None:
        """Delete revisions beyond the history limit."""
        stack = self.services.management_cluster.find_stack(self.uid)
        if stack is not None and self.targets.current is not None:
            present = {self._present} if self._present is not None else set()
            needed = self.targets.needed | present
            await revision_history.truncate(stack, self.services, needed=needed, limit=limit)

    @property
    def knows_all_kinds(self) -> bool:
        """Whether the revisions list every kind that the Stack may have applied."""
        stack = self.services.management_cluster.find_stack(self.uid)
        return stack is not None and self.builder.load_revisions(stack).knows_all_kinds(self.targets.needed)

    def find_kinds(self) -> frozenset[str]:
        """Return every kind that the Stack may have applied."""
        stack = self.services.management_cluster.find_stack(self.uid)
        return self.builder.load_revisions(stack).kinds if stack is not None else frozenset()
