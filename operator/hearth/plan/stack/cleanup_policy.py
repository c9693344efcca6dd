"""Rules for the obsolete objects that cleanup protects or preserves, so that a failed change destroys nothing.

Does not decide the order of deletions: see `hearth.plan.stack.cleanup`.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from hearth.model import value_class
from hearth.model.child import Child

DATA_KINDS = frozenset(
    {
        "PersistentVolumeClaim", "PersistentVolume", "Namespace", "StatefulSet.apps",
        "CustomResourceDefinition.apiextensions.k8s.io",
    }
)  # fmt: skip
"""Kinds whose objects hold data that cannot be recreated."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPolicy:
    """Cleanup policy of one target, from its start to its end."""

    protected_names: tuple[Set[str], ...] | None = None
    """The resources of each protected revision; None: any resource may belong to one of them.

    Not united: the sets are those of the blueprints, and a union of thousands of names would be made for each target.
    """
    is_waived: bool = False
    """Whether the user waived the protection."""
    preserves_data: bool = False
    """Whether objects of `DATA_KINDS` stay, because no user requested the current action."""

    def preserves(self, child: Child) -> bool:
        """Return whether cleanup preserves that obsolete object."""
        return self.preserves_data and holds_data(child)

    def protects(self, child: Child, *, present: Iterable[Child]) -> bool:
        """Return whether a completed revision may need that object, so that it stays until the target completes.

        present: all existing objects of its resource. When a revision completed, each resource had one object, and all
        later objects have a higher number. Only what holds data may have been preserved beside it, with any number.
        """
        if self.is_waived or not self.covers(child.resource):
            return False
        return holds_data(child) or all(
            child.incarnation <= each.incarnation for each in present if not holds_data(each)
        )

    def covers(self, resource: str) -> bool:
        """Return whether a protected revision has, or may have, that resource."""
        return self.protected_names is None or any(resource in names for names in self.protected_names)


def holds_data(child: Child) -> bool:
    """Return whether the object holds data that cannot be recreated."""
    return child.kind.key in DATA_KINDS
