"""What of the obsolete objects is held back, so that a change that fails has destroyed nothing, and what is left standing.

Says nothing of their order among themselves: see `hearth.plan.stack.cleanup`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hearth.model.child import Child

DATA_KINDS = frozenset(
    {
        "PersistentVolumeClaim", "PersistentVolume", "Namespace", "StatefulSet.apps",
        "CustomResourceDefinition.apiextensions.k8s.io",
    }
)  # fmt: skip
"""Kinds whose objects hold what cannot be made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPolicy:
    """For one wish, from its beginning to its end."""

    protected_names: frozenset[str] | None = None
    """The resources of the revisions that were reached last; None: any may have been among them."""
    is_waived: bool = False
    """Whether the user wants nothing held back."""
    preserves_data: bool = False
    """Whether objects of `DATA_KINDS` stay: nobody asked for what is being done."""

    def preserves(self, child: Child) -> bool:
        """Whether that obsolete object is left standing."""
        return self.preserves_data and child.kind.key in DATA_KINDS

    def protects(self, child: Child, *, oldest: int) -> bool:
        """Whether a revision that was reached wants that object, so that it stays until the present one is reached.

        oldest: the lowest incarnation of its resource that is there. When a revision was reached there was one object of
        each resource; whatever was made since has a higher number.
        """
        if self.is_waived:
            return False
        return (self.protected_names is None or child.resource in self.protected_names) and child.incarnation <= oldest
