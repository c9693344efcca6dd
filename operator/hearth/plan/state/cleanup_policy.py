"""Decides which obsolete objects cleanup protects or preserves, so that a failed change destroys nothing."""

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
    """Cleanup policy of one target, from start to finish."""

    protected_names: tuple[Set[str], ...] | None = None
    """The resources of each protected revision; None: any resource may belong to one of them.

    The sets are not merged, because they belong to the blueprints, and each target would need a new set of thousands of
    names.
    """
    is_waived: bool = False
    """Whether the user waived the protection."""
    max_removed: int | str | None = None
    """How many resources the target can remove without the user's consent: a number or a percentage; None: no limit."""
    preserves_data: bool = False
    """Whether objects of `DATA_KINDS` and retained objects stay, because no user requested the current action."""

    def preserves(self, child: Child, *, is_retained: bool) -> bool:
        """Return whether cleanup preserves that obsolete object.

        is_retained: whether it outlives its resource, which the target lacks. If it were released, the corrected
        definition would find an object that does not belong to the Stack.
        """
        return self.preserves_data and (is_retained or holds_data(child))

    def protects(self, child: Child, *, present: Iterable[Child]) -> bool:
        """Whether a completed revision may need that object, so that it stays until the target completes.

        present: all existing objects of its resource. When a revision completed, each resource had one object, and all
        later objects have a higher number. In addition, objects with data may have been preserved, with any number.
        """
        if self.is_waived or not self.covers(child.resource):
            return False
        return holds_data(child) or all(
            child.incarnation <= each.incarnation for each in present if not holds_data(each)
        )

    def covers(self, resource: str) -> bool:
        """Return whether a protected revision has, or might have, that resource."""
        return self.protected_names is None or any(resource in names for names in self.protected_names)


def holds_data(child: Child) -> bool:
    """Return whether the object holds data that cannot be recreated."""
    return child.kind.key in DATA_KINDS
